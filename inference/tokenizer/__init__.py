"""Text to tokens and back, torch-free.

    chat      messages → template → ids      what a user wrote never becomes a control token
    prompt    text → ids                     as the model's own tokenizer begins a text
    text      ids → whole characters, up to the first stop string that is complete

`folder.py` reads what a model folder says, `chat_template.py` renders, `text_stream.py` and `stop_strings.py` stream.
"""

from inference.tokenizer.text_stream import TextStream
from inference.tokenizer.tokenizer import Tokenizer

__all__ = ["TextStream", "Tokenizer"]
