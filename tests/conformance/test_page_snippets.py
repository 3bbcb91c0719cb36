"""Settings, policies and recipes that pages show are ones; and each block is run by some test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from markdown_it import MarkdownIt
from support import pages
from support.daemon import run_command

from sealcar_server.keys import registry
from sealcar_server.settings_reading import read

if TYPE_CHECKING:
    from support.openbao import Bao

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
# what a file of settings needs besides what a page shows
LEAST: Final = {
    "[daemon]": 'isolation = "none"\nstate_dir = "state"',
    "[listen.default]": 'dir = "run/default"',
    "[admin]": 'dir = "run/admin"',
    "[store]": 'path = "store"',
    "[keys.default]": 'uri = "file:kek"',
    "[policy]": 'file = "policy.toml"',
}
# where each kind of block is run; text isn't code, and of installing from a registry no test is
RUN: Final = {
    "README.md": {
        "console": "test_the_commands_of_the_readme_work_as_they_stand",
        "python": "test_the_python_of_the_readme_works_as_it_stands",
    },
    "concepts.md": {
        "console": "test_a_reader_who_does_what_the_pages_say_sees_what_they_show",
        "python": "test_a_reader_who_does_what_the_pages_say_sees_what_they_show",
    },
    "format.md": {"json": "test_the_example_is_a_record_that_uses_every_field"},
    "keys.md": {
        "hcl": "test_a_transit_key_and_a_token_are_made_as_the_page_says",
        "sh": "test_a_transit_key_and_a_token_are_made_as_the_page_says",
        "toml": "test_settings_that_a_page_shows_are_ones",
    },
    "languages.md": {
        "c": "test_the_calls_of_the_c_client_that_the_page_shows_compile",
        "console": "test_the_languages_binding_of_the_runtime_answers_with_a_sealed_model",
        "cpp": "test_the_recipe_of_the_page_reads_a_payload",
        "rust": "test_the_recipe_of_the_page_reads_a_payload",
        "sh": "test_the_c_client_is_built_as_the_page_says",
        "toml": "test_the_recipe_of_the_page_reads_a_payload",
    },
    "model-packages.md": {
        "console": "test_a_reader_who_does_what_the_pages_say_sees_what_they_show",
        "python": "test_the_examples_run_from_first_to_last",
    },
    "operations.md": {
        "console": "test_the_completion_that_is_shown_is_one",
        "python": "test_the_program_that_the_document_shows_works",
        "sh": "test_the_commands_for_a_bucket_that_the_page_shows_work",
        "toml": "test_the_policy_that_is_shown_is_one",
    },
    "performance.md": {"sh": "test_a_real_model_is_measured_in_every_way_and_nothing_of_it_stays"},
    "quick-start.md": {
        "console": "test_a_reader_who_does_what_the_pages_say_sees_what_they_show",
        "python": "test_a_reader_who_does_what_the_pages_say_sees_what_they_show",
        "sh": "",
    },
    "servers.md": {"console": "test_a_reader_of_the_page_gets_an_answer"},
    "scale.md": {"sh": "test_daemons_a_fleet_and_lists_are_measured_over_one_bucket"},
    "settings.md": {"toml": "test_settings_that_a_page_shows_are_ones"},
    "upgrade.md": {
        "console": "test_a_reader_who_does_what_the_pages_say_sees_what_they_show",
        "sh": "",
    },
}


def shown(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text()
    return [block.text for block in pages.blocks(text) if block.language == language]


def test_every_block_of_every_page_is_run_by_a_test_that_is_there() -> None:
    sources = "".join(path.read_text() for path in ROOT.glob("tests/*/test_*.py"))
    for page in [ROOT / "README.md", *DOCS.glob("*.md")]:
        found = {block.language for block in pages.blocks(page.read_text())} - {"text"}
        assert found == RUN.get(page.name, {}).keys(), page.name
    named = {test for tests in RUN.values() for test in tests.values() if test}
    assert [test for test in named if f"def {test}(" not in sources] == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_what_is_code_is_fenced_and_says_its_language(page: Path) -> None:
    for token in MarkdownIt().parse(page.read_text()):
        assert token.type != "fence" or token.info, token.content
        # formulas and layouts of the form at rest stand by themselves
        if token.type == "code_block" and page.name != "format.md":
            pytest.fail(f"not fenced: {token.content}")


@pytest.mark.parametrize(
    ("page", "number"), [("settings.md", 0), ("keys.md", 0), ("operations.md", 2)]
)
def test_settings_that_a_page_shows_are_ones(page: str, number: int, tmp_path: Path) -> None:
    settings = shown(page, "toml")[number]
    rest = {head: body for head, body in LEAST.items() if head not in settings}
    file = tmp_path / "sealcar.toml"
    file.write_text("\n".join([settings, *(f"{head}\n{body}" for head, body in rest.items())]))
    found = read(file, {}, ())
    for section, values in tomllib.loads(settings).items():
        assert all(hasattr(found, section) for _ in values)


def test_a_provider_of_ones_own_is_named_as_the_registry_looks_for_it() -> None:
    project = tomllib.loads(shown("keys.md", "toml")[1])["project"]
    assert list(project["entry-points"]) == [registry.GROUP]


def test_a_transit_key_and_a_token_are_made_as_the_page_says(bao: Bao, tmp_path: Path) -> None:
    (commands,), (policy,) = shown("keys.md", "sh"), shown("keys.md", "hcl")
    # the engine of the other tests stays: this one has another path
    commands = commands.replace("enable transit", "enable -path=page transit")
    commands = commands.replace("transit/keys", "page/keys")
    (tmp_path / "sealcar.hcl").write_text(policy.replace("transit/", "page/"))
    from support.openbao import PROGRAM  # noqa: PLC0415  (slow to import)

    (tmp_path / "vault").symlink_to(PROGRAM)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-ec", commands],
        cwd=tmp_path,
        env={"PATH": path, "HOME": str(tmp_path), **bao.variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    secret = tmp_path / "token"
    secret.touch(0o600)
    secret.write_text(bao.token_with("sealcar"))
    made = run_command(
        *("init", str(tmp_path / "d"), f"--key-uri=vault:{bao.url}/page/sealcar"),
        f"--key-secret=file:{secret}",
    )
    assert made.returncode == 0, made.stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
def test_the_c_client_is_built_as_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "client").symlink_to(ROOT / "client")
    (tmp_path / "server.c").write_text(SERVER)
    done = subprocess.run(
        ["/bin/sh", "-ec", shown("languages.md", "sh")[0]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    subprocess.run([tmp_path / "server"], env={"LD_LIBRARY_PATH": str(tmp_path)}, check=True)


SERVER: Final = """
#include "sealcar.h"
int main(void)
{
    sealcar_client *client;
    sealcar_error error;
    return sealcar_connect("/nowhere", -1, 10, NULL, &client, &error) ? 0 : 1;
}
"""
C: Final = """
#include "sealcar.h"
#include "abi.h"
struct api {
    OrtStatus *(*SessionOptionsSetEpContextDataReadFunc)(OrtSessionOptions *, read_named, void *);
};
extern const OrtApiBase *OrtGetApiBase(void);
int shown(const struct api *api, OrtSessionOptions *options)
{
    sealcar_client *client;
    sealcar_scope *scope;
    sealcar_error error;
    struct sealcar_name name = {.package = "ocr", .component = "det", .variant = "qnn"};
    OrtStatus *status;
    CALLS
    return status != NULL;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
def test_the_calls_of_the_c_client_that_the_page_shows_compile(tmp_path: Path) -> None:
    source = tmp_path / "shown.c"
    source.write_text(C.replace("CALLS", shown("languages.md", "c")[0]))
    folders = [f"-I{ROOT / 'client' / each}" for each in ("c", "sealcar/native")]
    done = subprocess.run(
        [
            str(shutil.which("cc")),
            "-std=c11",
            "-Wall",
            "-Werror",
            "-fsyntax-only",
            *folders,
            source,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
