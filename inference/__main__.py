"""`python -m inference`: one engine worker over HTTP, for a gateway that holds the same secret.

Prints one JSON line, {"port": N}, as soon as the port is bound; /readyz then says what it waits for.
"""

import argparse
import json
import logging
import os
import signal
from functools import partial
from pathlib import Path
from typing import NoReturn

SECRET = "SPECGATE_WORKER_SECRET"


def main() -> NoReturn:
    # Threads that wait for work must sleep: beside one other busy process a pass otherwise takes ten times as long.
    # It must be set before torch is imported, which these imports do not do, but what they start does.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from inference.server.build import build_engine
    from inference.server.options import WorkerOptions
    from inference.server.process import bind, die_with_parent, run_worker

    parser = _parser()
    arguments = vars(parser.parse_args())
    secret = os.environ.get(SECRET)
    if not secret:
        parser.error(f"set {SECRET} to the secret that the gateway also holds")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if arguments.pop("child"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with_parent()
    try:
        listener = bind(arguments.pop("host"), arguments.pop("port"))
        options = WorkerOptions.model_validate(arguments)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    code = run_worker(listener, secret, partial(build_engine, options))
    logging.shutdown()
    # The engine's thread may be inside a pass; a normal exit would pull the interpreter from under it.
    os._exit(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m inference", description="One engine worker over HTTP.")
    parser.add_argument("--model-folder", type=Path, required=True, help="a Hugging Face folder with safetensors")
    parser.add_argument("--model-name", required=True, help="what the gateway calls the model")
    parser.add_argument("--host", default="127.0.0.1", help="a loopback or private address, or a name of one")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), help="default: by device")
    parser.add_argument("--max-model-len", type=int, help="default: the model's own")
    parser.add_argument("--cache-gib", type=float, help="memory for the cache of keys and values")
    parser.add_argument("--num-blocks", type=int, help="the same in blocks of 16 tokens; wins over --cache-gib")
    parser.add_argument("--max-sequences", type=int, default=32, help="at most so many at a time")
    parser.add_argument("--allow-forced-output", action="store_true", help="benchmarks only")
    parser.add_argument("--revision", help="refuse a folder whose revision begins otherwise")
    parser.add_argument("--speculation", type=json.loads, default={}, help="SpeculationConfig as JSON")
    parser.add_argument("--child", action="store_true", help="leave Ctrl-C to the parent, which drains first")
    return parser


if __name__ == "__main__":
    main()
