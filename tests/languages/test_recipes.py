"""The recipes of docs/languages.md, built as it says, read a payload of a real daemon."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from support import pages
from support.daemon import Daemon
from support.payload_packages import publish, varied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT.joinpath("docs", "languages.md").read_text()
# more than one message
DATA: Final = varied((2 << 20) + 77)
CARGO: Final = """
[package]
name = "recipe"
version = "0.0.0"
edition = "2021"

"""
RUST: Final = """
{modules}
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {{
    let path = std::env::args().nth(1).unwrap();
    let scope = v1::Scope {{
        package: Some(v1::PackageRef {{ name: "m".into(), ..Default::default() }}),
        component: "c".into(),
        variant: "v".into(),
        ..Default::default()
    }};
    let name = String::from("blob");
    let mut whole = Vec::new();
    {statements}
    std::io::Write::write_all(&mut std::io::stdout(), &whole)?;
    Ok(())
}}
"""
CPP: Final = """
#include <grpcpp/grpcpp.h>
#include <iostream>
#include "sealcar/v1/payloads.grpc.pb.h"
int main(int, char **argv) {{
    std::string path = argv[1], whole;
    sealcar::v1::ReadRequest request;
    sealcar::v1::ReadResponse piece;
    grpc::ClientContext context;
    request.mutable_scope()->mutable_package()->set_name("m");
    request.mutable_scope()->set_component("c");
    request.mutable_scope()->set_variant("v");
    request.set_name("blob");
    {statements}
    std::cout << whole;
}}
"""

RUST_BY_C: Final = """
use std::ffi::CString;
fn main() {{
    let text: Vec<CString> = std::env::args().map(|each| CString::new(each).unwrap()).collect();
    let name = Name {{
        package: text[2].as_ptr(),
        version: std::ptr::null(),
        component: text[3].as_ptr(),
        variant: text[4].as_ptr(),
        generation: 0,
    }};
    let mut data = vec![0u8; {size}];
    unsafe {{
        let (mut client, mut scope) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut error: Error = std::mem::zeroed();
        let (socket, nothing) = (text[1].as_ptr(), std::ptr::null());
        assert_eq!(0, sealcar_connect(socket, -1, 10000, nothing, &mut client, &mut error));
        assert_eq!(0, sealcar_open(client, &name, &mut scope, &mut error));
        let failed = sealcar_read(scope, text[5].as_ptr(), data.as_mut_ptr(), {size}, &mut error);
        assert_eq!(0, failed);
    }}
    std::io::Write::write_all(&mut std::io::stdout(), &data).unwrap();
}}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("recipes")) as daemon:
        with daemon.connect() as client:
            publish(client, {"blob": DATA})
        yield daemon


def shown(language: str) -> list[str]:
    return [block.text for block in pages.blocks(PAGE) if block.language == language]


def needs(*programs: str) -> None:
    missing = [each for each in programs if shutil.which(each) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} isn't installed")


def run(*command: str, folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "SEALCAR_PROTO": str(ROOT / "proto")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"


def rust(folder: Path) -> Path:
    needs("cargo", "protoc")
    _, build, call = shown("rust")
    modules, end, statements = call.partition("\n}\n")
    (folder / "src").mkdir(exist_ok=True)
    (folder / "Cargo.toml").write_text(CARGO + shown("toml")[0])
    (folder / "build.rs").write_text(build)
    main = RUST.format(modules=modules + end, statements=statements)
    (folder / "src" / "main.rs").write_text(main)
    run("cargo", "build", "--quiet", folder=folder)
    return folder / "target" / "debug" / "recipe"


def cpp(folder: Path) -> Path:
    needs("protoc", "grpc_cpp_plugin", "pkg-config", "c++")
    (folder / "main.cc").write_text(CPP.format(statements=shown("cpp")[0]))
    if not (folder / "proto").exists():
        (folder / "proto").symlink_to(ROOT / "proto")
    run("/bin/sh", "-ec", shown("sh")[1], folder=folder)
    return folder / "client"


BUILD: Final[dict[str, Callable[[Path], Path]]] = {"rust": rust, "cpp": cpp}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("language", BUILD)
def test_the_recipe_of_the_page_reads_a_payload(language: str, served: Daemon) -> None:
    folder = ROOT / ".languages" / f"recipe-{language}"
    folder.mkdir(parents=True, exist_ok=True)
    program = BUILD[language](folder)
    done = subprocess.run(
        [str(program), str(served.socket / "grpc.sock")], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == DATA


def test_the_c_client_is_called_from_rust_as_the_page_says(served: Daemon, tmp_path: Path) -> None:
    needs("cc", "rustc")
    (tmp_path / "client").symlink_to(ROOT / "client")
    run("/bin/sh", "-ec", shown("sh")[0].splitlines()[0], folder=tmp_path)
    (tmp_path / "reader.rs").write_text(shown("rust")[0] + RUST_BY_C.format(size=len(DATA)))
    run("rustc", "-A", "dead_code", "-L", ".", "-o", "reader", "reader.rs", folder=tmp_path)
    done = subprocess.run(
        [tmp_path / "reader", served.socket, "m", "c", "v", "blob"],
        env={"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == DATA
