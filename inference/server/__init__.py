"""The worker process: an engine behind HTTP.

    process    the port is bound first, then the model is loaded; signals, the parent's death, exit codes
    build      the one place where tokenizer, model, engine and its thread are put together
    service    what is served: nothing yet, an engine, or the reason why not
    guard      the shared secret and the protocol version
    app        the routes: parse, call, answer
    intake     a request becomes sequences, or is refused
    outbox     events from the engine's thread to the socket       response    one stream and its end

Only `build` imports torch, on the thread that loads the model.
"""
