"""A museum of broken mechanisms: common mistakes in differential privacy, one wrong line each, and an attack on each.

Every exhibit holds a correct release of a few lines (`releases`), and the wrong version of one line (`collection`). The
broken release is made from the correct one's own source, with that line replaced and nothing else, so the two cannot
diverge. Each mistake is shown twice (`exhibit`): (A) exactly, by densities that give an epsilon above the claim without
any sampling; (B) by an audit of samples, with a number of runs for which the attack succeeds with probability 0.99 or
more.
"""

from dpnotes.privacy.museum.collection import exhibits
from dpnotes.privacy.museum.exhibit import Exhibit, Setting, Source, module_with_line_replaced, with_line_replaced
from dpnotes.privacy.museum.wild import wild

__all__ = ["Exhibit", "Setting", "Source", "exhibits", "module_with_line_replaced", "wild", "with_line_replaced"]
