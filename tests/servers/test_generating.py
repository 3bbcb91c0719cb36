"""The example of onnxruntime-genai, with a small language model that says nothing in particular."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from bench import tokens_model
from support.inference_servers import assert_no_events, needs, server_environment

from sealcar import publish

if TYPE_CHECKING:
    from pathlib import Path

    from support.inference_servers import Served

PACKAGE: Final = "chat"
# the model that the daemon gives, from a folder without it, against the one of a folder with it
PROGRAM: Final = """
import json, sys
import genai_model, numpy, onnxruntime_genai as genai, sealcar

def tokens(model):
    parameters = genai.GeneratorParams(model)
    parameters.set_search_options(do_sample=False, max_length=16)
    generator = genai.Generator(model, parameters)
    generator.append_tokens(numpy.array([[1, 5, 7]], numpy.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return [int(each) for each in generator.get_sequence(0)]

package, settings, plain = sys.argv[1:]
with sealcar.connect() as client:
    sealed = genai_model.load(client, package, settings)
print(json.dumps([tokens(sealed), tokens(genai.Model(plain))]))
"""


def test_a_language_model_of_genai_says_what_the_plain_one_does(
    served: Served, tmp_path: Path
) -> None:
    needs("onnxruntime_genai")
    plain, settings = tmp_path / "plain", tmp_path / "settings"
    plain.mkdir()
    settings.mkdir()
    model = tokens_model.write(plain, 4)
    (settings / tokens_model.SETTINGS).write_bytes((plain / tokens_model.SETTINGS).read_bytes())
    with served.daemon.connect() as client:
        plan = publish.plan(model, name=PACKAGE, keep_inline=True)
        client.catalogue.import_(plan)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, PACKAGE, str(settings), str(plain)],
        env=server_environment(served),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert_no_events(served)
    said, want = json.loads(done.stdout)
    assert said == want
    assert len(said) > 4
