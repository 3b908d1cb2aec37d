"""Isolation on the real llama-server: a quantised V cache cannot start without flash attention."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

from knowngood.demo.lab import write_lab
from knowngood.demo.model import fetch_model
from knowngood.errors import HostError

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
pytest.importorskip("xllamacpp")

CULPRIT = '[[change]]\nflag = "--cache-type-v"\nvalue = "q8_0"\n'
OFF = '[[change]]\nflag = "--flash-attn"\nvalue = "off"\n'
FIVE = """
[[change]]
flag = "--batch-size"
value = "512"
[[change]]
flag = "--ubatch-size"
value = "128"
[[change]]
flag = "--cache-type-k"
value = "q8_0"
[[change]]
env = "KG_A"
value = "1"
"""
FIFTH = '[[change]]\nflag = "--load-mode"\nvalue = "none"\n'


def measured(lab: "RealLab", *, flash_attention_off: bool) -> None:
    """Make the demo's quick lab of it, with shorter runs and less evidence, and record its baseline."""
    try:
        model = fetch_model()
    except HostError as error:
        pytest.skip(error.message)
    file = lab.root / "knowngood.toml"
    file.unlink()
    write_lab(lab.root, model=model, draft=model, quick=True)
    text = file.read_text().replace("baseline_pairs = 3", "baseline_pairs = 1")
    text = text.replace("duration_s = 3.0", "duration_s = 1.5").replace('answers = "equivalent"', 'answers = "off"')
    if flash_attention_off:
        text = text.replace('"--parallel", "1",', '"--parallel", "1", "--flash-attn", "off",')
    file.write_text(text)
    done = lab.run("baseline")
    assert done.status == 0, done


def test_one_of_six_members_prevents_the_start(lab: "RealLab") -> None:
    measured(lab, flash_attention_off=True)
    done = lab.run("isolate", lab.experiment("six", FIVE + CULPRIT + FIFTH), "--no-trial", "--json", timeout=280)
    assert done.status == 0, done
    (culprit,) = done.json["culprits"]
    assert (culprit["members"], culprit["alone"]) == (["flag --cache-type-v q8_0"], True)
    assert "quantized V cache" in culprit["why"]
    assert len(done.json["launches"]) - 1 <= 5, "the first launch is that of the whole set"
    assert len(done.json["survivors"]) == 5
    # No dead end: with flash attention, which the baseline has switched off, the member would do.
    assert lab.run("findings", "--json").json["findings"][0]["sign"] == "hurts"
    lab.assert_known_good()


def test_two_of_six_members_prevent_the_start_together(lab: "RealLab") -> None:
    measured(lab, flash_attention_off=False)
    name = lab.experiment("six", FIVE + CULPRIT + OFF)
    assert lab.run("try", name).status == 1
    done = lab.run("isolate", name, "--no-trial", "--json", timeout=280)
    assert done.status == 0, done
    (culprit,) = done.json["culprits"]
    assert {*culprit["members"], *culprit["beside"]} == {"flag --cache-type-v q8_0", "flag --flash-attn off"}
    assert len(done.json["launches"]) <= 5
    lab.assert_known_good()
