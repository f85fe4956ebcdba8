"""A worktree of a Python project runs its own code and its tests unaided, whatever is installed editable in the main checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import commit, git
from tests.integration.provisioning import add_worktree, make_usable, run_in, usable
from tests.support.files import executable, put

PROJECT = {
    "pyproject.toml": "[project]\nname = 'shop'\nversion = '1'\n",
    ".gitignore": ".venv/\n__pycache__/\n",
    "src/shop/__init__.py": "PRICE = 1\n",
    "tests/test_shop.py": (
        "import os, unittest, shop\n\n\nclass T(unittest.TestCase):\n    def test_price(self):\n"
        "        self.assertEqual(shop.PRICE, int(os.environ['EXPECTED']))\n"
    ),
}
FINDER = """import sys
from importlib.machinery import PathFinder
MAPPING = {{'shop': {package!r}}}


class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in MAPPING:
            from importlib.util import spec_from_file_location
            return spec_from_file_location(name, MAPPING[name] + '/__init__.py')


def install():
    sys.meta_path.append(Finder)
"""

MakeRepo = Callable[..., Path]


def make_venv(main: Path, name: str = ".venv") -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", main / name], check=True)
    return main / name


def site(venv: Path) -> Path:
    (folder,) = venv.glob("lib/*/site-packages")
    return folder


def by_path(main: Path, venv: Path) -> None:
    (site(venv) / "__editable__.shop-1.pth").write_text(f"{main}/src\n")


def by_finder(main: Path, venv: Path) -> None:
    (site(venv) / "__editable__.shop-1.pth").write_text(
        "import __editable___shop_finder; __editable___shop_finder.install()"
    )
    (site(venv) / "__editable___shop_finder.py").write_text(FINDER.format(package=f"{main}/src/shop"))
    # Compiled, as after any use: the copy must not run the main checkout's bytecode.
    subprocess.run([venv / "bin" / "python", "-c", "import shop"], check=True)


@pytest.mark.parametrize("install", [by_path, by_finder])
@pytest.mark.parametrize("name", ["repo", "a répo with spaces"])
def test_an_editable_install_imports_the_worktrees_code(
    make_repo: MakeRepo, install: Callable[[Path, Path], None], name: str
) -> None:
    main = make_repo(name, PROJECT)
    install(main, make_venv(main))
    worktree, provisioned = usable(main)
    commit(worktree, {"src/shop/__init__.py": "PRICE = 2\n"})

    # Not from the root's own path: only the installation can find the package.
    code = "import shop, sys; print(shop.PRICE, shop.__file__, sys.prefix, sep='\\n')"
    assert run_in(worktree, provisioned, "python", "-I", "-c", code).splitlines() == [
        "2",
        str(worktree / "src/shop/__init__.py"),
        str(worktree / ".venv"),
    ]
    run_in(worktree, provisioned, "env", "EXPECTED=2", "python", "-m", "unittest", "discover", "-s", "tests")
    assert git(worktree, "status", "--porcelain") == ""
    # The main checkout goes on as before.
    in_main = subprocess.run([main / ".venv/bin/python", "-I", "-c", code], capture_output=True, text=True, check=True)
    assert in_main.stdout.splitlines()[:2] == ["1", str(main / "src/shop/__init__.py")]


def test_the_environment_names_the_worktrees_own_virtual_environment(make_repo: MakeRepo) -> None:
    main = make_repo(files=PROJECT)
    make_venv(main)
    worktree, provisioned = usable(main)
    assert provisioned.env["VIRTUAL_ENV"] == str(worktree / ".venv")
    assert provisioned.path_prefixes == [str(worktree / ".venv" / "bin")]
    assert provisioned.exclude == []
    sourced = run_in(
        worktree, provisioned, "sh", "-c", f"PATH={os.environ['PATH']}; . .venv/bin/activate; command -v python"
    )
    assert sourced.strip() == str(worktree / ".venv/bin/python")


def test_scripts_run_with_the_worktrees_interpreter(make_repo: MakeRepo) -> None:
    main = make_repo(files=PROJECT)
    venv = make_venv(main)
    executable(venv / "bin" / "tool", f"#!{venv}/bin/python\nimport sys\nprint(sys.prefix, *sys.argv[1:])\n")
    binary = venv / "bin" / "compiled"
    binary.write_bytes(b"\x7fELF\0" + os.fsencode(venv))
    # Two depths: the second has a first line longer than a kernel need read.
    for name in ("w", "w" * 64):
        worktree = add_worktree(main, name)
        provisioned = make_usable(main, worktree)
        assert run_in(worktree, provisioned, "tool", "a b").strip() == f"{worktree}/.venv a b"
        assert len((worktree / ".venv/bin/tool").read_bytes().splitlines()[0]) <= 127
        assert (worktree / ".venv/bin/compiled").read_bytes() == binary.read_bytes()


def test_a_project_in_a_path_with_spaces_has_runnable_scripts(make_repo: MakeRepo, tmp_path: Path) -> None:
    main = make_repo(files=PROJECT)
    venv = make_venv(main)
    executable(venv / "bin" / "tool", f"#!{venv}/bin/python\nimport sys\nprint(sys.prefix)\n")
    worktree = tmp_path / "elsewhere, with spaces"
    git(main, "worktree", "add", "-q", "-b", "x", str(worktree))
    provisioned = make_usable(main, worktree)
    assert run_in(worktree, provisioned, "tool").strip() == str(worktree / ".venv")


def test_only_the_projects_own_path_is_rewritten(make_repo: MakeRepo) -> None:
    main = make_repo(files=PROJECT)
    venv = make_venv(main)
    others = f"{main}2/src\n{main}-old/src\n/data{main}/src\n"
    (site(venv) / "others.pth").write_text(others)
    info = site(venv) / "shop-1.dist-info"
    put(info / "direct_url.json", f'{{"dir_info": {{"editable": true}}, "url": "file://{main}"}}')
    (info / "METADATA").write_text(f"Name: shop\nHome-page: {main}\n")
    worktree, _ = usable(main)
    copied = site(worktree / ".venv")
    assert (copied / "others.pth").read_text() == others
    assert f'"file://{worktree}"' in (copied / "shop-1.dist-info/direct_url.json").read_text()
    assert str(worktree) not in (copied / "shop-1.dist-info/METADATA").read_text()


def test_an_environment_made_through_a_symlink_is_relocated_too(make_repo: MakeRepo, tmp_path: Path) -> None:
    main = make_repo(files=PROJECT)
    alias = tmp_path / "alias"
    alias.symlink_to(main)
    venv = make_venv(alias)
    (site(venv) / "shop.pth").write_text(f"{alias}/src\n")
    worktree, _ = usable(main)
    assert (site(worktree / ".venv") / "shop.pth").read_text() == f"{worktree}/src\n"


def test_an_environment_of_a_package_deeper_in_the_repository_comes_along(make_repo: MakeRepo) -> None:
    main = make_repo(files={"backend/pyproject.toml": "[project]\nname = 'b'\n", ".gitignore": ".venv\n"})
    make_venv(main, "backend/.venv")
    worktree, provisioned = usable(main)
    assert (worktree / "backend/.venv/bin/python").exists()
    # Which of several environments a command means, nobody said.
    assert "VIRTUAL_ENV" not in provisioned.env


def test_of_two_environments_the_hidden_one_is_meant(make_repo: MakeRepo) -> None:
    main = make_repo(files={**PROJECT, ".gitignore": ".venv\nvenv\n"})
    make_venv(main, "venv")
    make_venv(main, ".venv")
    worktree, provisioned = usable(main)
    assert provisioned.env["VIRTUAL_ENV"] == str(worktree / ".venv")
    assert run_in(worktree, provisioned, "python", "-c", "import sys; print(sys.prefix)").strip() == f"{worktree}/.venv"


def test_installing_in_the_worktree_leaves_the_main_checkout_alone(make_repo: MakeRepo) -> None:
    main = make_repo(files=PROJECT)
    venv = make_venv(main)
    (site(venv) / "six.py").write_text("here = 'main'\n")
    worktree, _ = usable(main)
    copy = site(worktree / ".venv") / "six.py"
    assert not copy.samefile(site(venv) / "six.py")
    copy.write_text("here = 'worktree'\n")
    assert (site(venv) / "six.py").read_text() == "here = 'main'\n"
