# Pyright takes 19 seconds to read this package, of which a few names are used.
from typing import Any

def __getattr__(name: str) -> Any: ...
