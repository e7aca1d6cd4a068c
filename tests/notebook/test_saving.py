"""Notebooks that JupyterLab saves: a picture in place of a view whose kernel ends, beside a hook of the user's own."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from jupyter_server.services.contents.filemanager import FileContentsManager
from traitlets.config import Config

from dpnotes.notebook import saving, widgets

VIEW = {saving.WIDGET: {"model_id": "1", "version_major": 2, "version_minor": 0}}
STATES = {"application/vnd.jupyter.widget-state+json": {"state": {}}}

# jupyter_server validates a hook twice, and takes the second time for another one.
pytestmark = pytest.mark.filterwarnings("ignore:Overriding existing pre_save_hook:UserWarning")


def saved(folder: Path, *outputs: dict[str, Any]) -> dict[str, Any]:
    """Return what is in the file after outputs with this data are saved by a server with the extension."""
    seen: list[str] = []
    hook = {"ContentsManager": {"pre_save_hook": lambda path, **_: seen.append(path)}}
    manager = FileContentsManager(root_dir=str(folder), config=Config(hook))
    saving._load_jupyter_server_extension(SimpleNamespace(contents_manager=manager))
    cell = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("display_data", data=data) for data in outputs])
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": STATES})
    manager.save({"type": "notebook", "format": "json", "content": notebook}, "mine.ipynb")
    assert seen == ["mine.ipynb"], "the user's own hook is called, too"
    return json.loads((folder / "mine.ipynb").read_text())


def test_a_view_leaves_the_file_where_there_is_a_picture(tmp_path: Path):
    found = saved(tmp_path, {**VIEW, "text/html": "<img>", "text/plain": "Explorer"})
    assert [*found["cells"][0]["outputs"][0]["data"]] == ["text/html", "text/plain"]
    assert "widgets" not in found["metadata"]


def test_a_view_without_a_picture_stays_with_its_state(tmp_path: Path):
    found = saved(tmp_path, {**VIEW, "text/plain": "IntSlider"}, {**VIEW, "text/html": "<img>"})
    first, second = (output["data"] for output in found["cells"][0]["outputs"])
    assert saving.WIDGET in first and saving.WIDGET not in second and found["metadata"]["widgets"] == STATES


def test_the_picture_in_the_file_is_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    saving.keep_last("1", "<img last>")
    (tmp_path / "other.html").write_text("secret")
    outside = {saving.WIDGET: {"model_id": "../../other"}, "text/html": "<img first>"}
    shown = saved(tmp_path, {**VIEW, "text/html": "<img first>"}, outside)["cells"][0]["outputs"]
    assert ["".join(output["data"]["text/html"]) for output in shown] == ["<img last>", "<img first>"]


def test_a_kernel_keeps_the_picture_shown_once_it_is_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(widgets, "SETTLED", 0.01)
    control = widgets.slider("side", 1, 9, value=3)
    shown = widgets.Explorer(
        {"side": control}, lambda side: {"side": side}, lambda data, axes: None, lambda data: f"Side {data['side']}."
    )

    async def moved() -> str:
        model_id = shown._repr_mimebundle_()[saving.WIDGET]["model_id"]
        control.value = 7
        assert saving.last_picture(model_id) == "", "not before it is settled"
        await asyncio.sleep(0.3)
        return saving.last_picture(model_id)

    assert "Side 7." in asyncio.run(moved())


@pytest.mark.parametrize(
    "model",
    [{"type": "file", "content": "text"}, {"type": "notebook"}, {"type": "notebook", "content": {"nbformat": 3}}],
)
def test_what_is_no_notebook_of_format_4_is_left_alone(model: dict[str, Any]):
    before = json.dumps(model)
    saving.keep_pictures(model)
    assert json.dumps(model) == before
