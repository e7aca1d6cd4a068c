"""An extension of the Jupyter server: pictures that outlive their kernel, in place of views of widgets that do not.

A view of a widget names a model that lives in a kernel. JupyterLab prefers the view to the picture stored beside it,
and says "model not found" once the kernel has ended. So a view leaves the file where there is something else to show;
what is on the screen stays. The picture is that of the last state: a kernel leaves it in the folder for files of
running kernels, under the name of the model. `lab/jupyter_server_config.json` turns the extension on; `dpnotes lab`
names its folder.
"""

import atexit
import contextlib
import re
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_runtime_dir

from dpnotes.util import files

WIDGET = "application/vnd.jupyter.widget-view+json"


def keep_pictures(model: dict[str, Any], **_: Any) -> None:
    """Drop views of widgets beside which a picture or text stands from a notebook that is about to be saved.

    Args:
      model: of the Jupyter contents service, changed in place; anything but a notebook of format 4 is left alone.

    >>> data = {WIDGET: {}, "text/html": "<img>", "text/plain": "Explorer(noise)"}
    >>> cell = {"cell_type": "code", "outputs": [{"output_type": "display_data", "data": data}]}
    >>> keep_pictures({"type": "notebook", "content": {"nbformat": 4, "cells": [cell], "metadata": {}}})
    >>> [*data]
    ['text/html', 'text/plain']
    """
    content = model.get("content")
    if model.get("type") != "notebook" or not content or content.get("nbformat") != 4:
        return
    shown = [output.get("data", {}) for cell in content["cells"] for output in cell.get("outputs", [])]
    for data in shown:
        if "text/html" in data and (view := data.pop(WIDGET, None)):
            data["text/html"] = last_picture(str(view.get("model_id"))) or data["text/html"]
    if not any(WIDGET in data for data in shown):
        content["metadata"].pop("widgets", None)  # states of models that nothing shows


def keep_last(model_id: str, picture: str) -> None:
    """Write the last picture of a widget, HTML, to where `keep_pictures` finds it until this process ends.

    On a full disk the one before stays.
    """
    path = _last(model_id)
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            atexit.register(path.unlink, missing_ok=True)
        files.write({path: picture.encode()}, 0o600)


def last_picture(model_id: str) -> str:
    """Return the last picture of a widget, or "" if there is none; a name that is no model's has none."""
    known = re.fullmatch("[0-9a-f]+", model_id) and _last(model_id).is_file()
    return _last(model_id).read_text(encoding="utf-8") if known else ""


def _last(model_id: str) -> Path:
    return Path(jupyter_runtime_dir()) / "dpnotes" / f"{model_id}.html"


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    server.contents_manager.register_pre_save_hook(keep_pictures)  # beside a hook of the user's own
