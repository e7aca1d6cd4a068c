"""Sentences as numbers, and BERT: against transformers where it is installed, and end to end on real sentences."""

import hashlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from sentences import CHARACTER_PIECES, character_tokenizer, random_bert

from dpnotes.problems import text
from dpnotes.problems.datasets.cola import Corpus, Sentences
from dpnotes.problems.modules import ModuleProblem
from dpnotes.problems.published import PublishedFile
from dpnotes.problems.text import Bert, BertSize
from dpnotes.random.streams import Streams

# transformers uses a function of torch that torch 2.13 deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")

REAL = Path(os.environ.get("DPNOTES_DATA", "/nowhere"))
SMALL = BertSize(len(CHARACTER_PIECES), 8, 2, 2, 12, 32)


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip(
        "transformers", reason="pip install 'dpnotes[text]': BERT not compared with transformers"
    )


def config_of(transformers: Any, size: BertSize, **more: Any) -> Any:
    """Return the configuration of the same model for transformers."""
    given = {"vocab_size": size.vocabulary, "hidden_size": size.hidden, "num_hidden_layers": size.layers}
    given |= {"num_attention_heads": size.heads, "intermediate_size": size.intermediate}
    return transformers.BertConfig(**given, max_position_embeddings=size.max_length, **more)


def corpus(*texts: str) -> Corpus:
    part = Sentences(texts, torch.arange(len(texts)) % 2)
    other = Sentences(texts[:1], torch.tensor([1]))
    return Corpus("toy", part, other, part, "none", "here")


def wide(size: BertSize) -> Bert:
    """Return a BERT far from its flat initial point, near which many parts would hardly affect the logits."""
    model = random_bert(size, seed=0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            draw = Streams.of("wide", [name]).normal("parameter", 0, parameter.numel())
            parameter.add_(draw.view(parameter.shape).to(parameter), alpha=0.5)
    return model


# ---------------------------------------------------------------- sentences as numbers


# ---------------------------------------------------------------- BERT
@pytest.mark.slow
def test_bert_gives_the_logits_and_gradients_of_transformers(transformers: Any) -> None:
    size = replace(SMALL, heads=4)
    theirs = transformers.BertForSequenceClassification(config_of(transformers, size, num_labels=3)).double().eval()
    ours = Bert(size, num_classes=3).double()
    state = {name: value.double() for name, value in wide(size).state_dict().items() if "classifier" not in name}
    ours.load_state_dict(
        state | {"classifier.weight": torch.eye(3, 8).double() * 10, "classifier.bias": torch.ones(3).double()}
    )
    theirs.load_state_dict(ours.state_dict(), strict=True)
    packed = character_tokenizer(["The dog barks.", "Dogs", "", "What a very long sentence this one is."], length=32)
    logits, expected = ours(packed), theirs(input_ids=packed[:, 0], attention_mask=packed[:, 1]).logits
    assert float(expected.detach().std(0).min()) > 0.01, "the sentences are told apart"
    torch.testing.assert_close(logits, expected, atol=1e-10, rtol=0)
    logits.square().sum().backward()
    expected.square().sum().backward()
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, atol=1e-9, rtol=1e-9, msg=name)


def test_padding_and_company_change_nothing() -> None:
    model = wide(SMALL).double()
    short, long = (
        character_tokenizer(["A dog."], length=8),
        character_tokenizer(["A dog.", "Two dogs bark."], length=32),
    )
    alone = model(short)[0]
    torch.testing.assert_close(model(long)[0], alone, atol=1e-12, rtol=0)
    unmasked = long.clone()
    unmasked[:, 1] = 1
    assert float((model(unmasked)[0] - alone).detach().abs().max()) > 1e-4, "control: the mask counts"
    nothing = torch.zeros(1, 2, 8, dtype=torch.int64)
    assert bool(torch.isfinite(model(nothing)).all())


def test_its_gradients_by_example_come_from_one_backward_pass() -> None:
    packed, labels = character_tokenizer(["A dog.", "Dogs bark.", "Bark"], length=12), torch.tensor([0, 1, 1])
    model = wide(SMALL).double()
    problem = ModuleProblem(model, packed, labels)
    norms = problem.gradients(problem.initial(Streams.of("bert", ["run"]), only=[])).norms()[0]
    for i in range(3):
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(packed[i : i + 1]), labels[i : i + 1]).backward()
        alone = torch.cat([p.grad.reshape(-1) for p in model.parameters()])  # type: ignore[union-attr]
        torch.testing.assert_close(norms[i], alone.norm())


# ---------------------------------------------------------------- the published weights
@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DPNOTES_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DPNOTES_CACHE", str(tmp_path / "cache"))
    nowhere = tuple(replace(file, urls=("http://127.0.0.1:9/" + file.name,)) for file in text.BERT_FILES)
    monkeypatch.setattr(text, "BERT_FILES", nowhere)
    folder = tmp_path / "data" / "bert-base-uncased"
    folder.mkdir(parents=True)
    return folder


def test_without_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    for call in (text.bert_tokenizer, lambda: text.pretrained_bert(0)):
        with pytest.raises(ModuleNotFoundError, match=r"dpnotes\[text\]"):
            call()


def save(folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a small model's files in the published, older format, in which scales and shifts are gamma and beta."""
    from safetensors.torch import save_file

    state = model.state_dict()
    for ours, published in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
        state = {name.replace(ours, published): value.contiguous() for name, value in state.items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(model.config.to_dict()))
    (folder / "vocab.txt").write_text("\n".join(CHARACTER_PIECES) + "\n")
    sums = {file.name: hashlib.sha256((folder / file.name).read_bytes()).hexdigest() for file in text.BERT_FILES}
    monkeypatch.setattr(text, "BERT_FILES", tuple(PublishedFile(name, sha256) for name, sha256 in sums.items()))


def test_published_files_become_a_model_with_a_new_classifier(
    transformers: Any, offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = transformers.BertModel(config_of(transformers, replace(SMALL, layers=1))).eval()
    with torch.no_grad():
        published.embeddings.LayerNorm.weight.mul_(2)
    save(offline, published, monkeypatch)
    model = text.pretrained_bert(seed=3)
    packed = text.bert_tokenizer()(["A dog.", "Dogs bark loudly."], 12)
    assert torch.equal(packed, character_tokenizer(["A dog.", "Dogs bark loudly."], 12))
    pooled = published(input_ids=packed[:, 0], attention_mask=packed[:, 1]).pooler_output
    torch.testing.assert_close(model(packed), pooled @ model.classifier.weight.T, atol=1e-6, rtol=0)
    assert torch.equal(model.classifier.weight, text.pretrained_bert(seed=3).classifier.weight)
    assert not torch.equal(model.classifier.weight, text.pretrained_bert(seed=4).classifier.weight)
    assert all(parameter.requires_grad for parameter in model.parameters())
