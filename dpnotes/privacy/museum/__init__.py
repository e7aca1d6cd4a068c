"""A museum of broken mechanisms: the mistakes of this field, one wrong line each, and the attack that finds it.

Every exhibit holds a correct release of a few lines (`releases`), and the line that someone got wrong (`collection`).
The broken release is made from the correct one's own source, with that line replaced and nothing else, so the two
cannot drift apart. Each is shown twice (`exhibit`): (A) exactly, by densities that give an epsilon above the claim
without any sampling; (B) by an audit of samples, with a number of runs for which the attack succeeds with probability
0.99 or more.
"""

from dpnotes.privacy.museum.collection import exhibits
from dpnotes.privacy.museum.exhibit import Exhibit, Setting, Source, module_with_line_replaced, with_line_replaced
from dpnotes.privacy.museum.wild import wild

__all__ = [
    "Exhibit",
    "Setting",
    "Source",
    "exhibits",
    "module_with_line_replaced",
    "wild",
    "with_line_replaced",
]
