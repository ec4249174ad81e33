"""Checks the output of `make wheel`: the contents of the wheel and the sdist, and that both can be
installed and used with every Python on this machine, without the repository and (the wheel) without
a Rust toolchain.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).parent.parent
SMOKE_TEST = TOP / "scripts" / "smoke_test.py"
MINORS = range(11, 20)

# A larger wheel contains something that does not belong there.
LARGEST = 16 * 1024 * 1024

# The newest glibc that a Linux wheel may require.
NEWEST_GLIBC = (2, 28)


def pythons() -> Iterator[str]:
    """Yields one interpreter per supported version."""
    homes = [Path(path) for path in os.environ.get("PATH", "").split(os.pathsep)]
    homes += sorted(Path.home().glob(".pyenv/versions/3.*/bin"))
    hosted = Path(os.environ.get("AGENT_TOOLSDIRECTORY", ""))
    homes += [*sorted(hosted.glob("Python/3.*/*/bin")), *sorted(hosted.glob("Python/3.*/*"))]
    for minor in MINORS:
        names = (f"python3.{minor}", f"python3.{minor}.exe", "python.exe")
        found = (str(home / name) for home in homes for name in names)
        for path in found:
            if os.path.isfile(path) and _version(path) == (3, minor):
                yield path
                break


def _version(python: str) -> tuple[int, int] | None:
    code = "import sys; print(*sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    numbers = done.stdout.split()
    return (int(numbers[0]), int(numbers[1])) if done.returncode == 0 else None


def check_wheel(wheel: Path) -> None:
    """Checks licences, SBOM, types, size and platform."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        for needed in (
            r"jax2onnx/_core\.abi3\.so|jax2onnx/_core\.pyd",
            r"jax2onnx/_core\.pyi",
            r"jax2onnx/py\.typed",
            r".*\.dist-info/licenses/LICENSE",
            r".*\.dist-info/licenses/THIRD-PARTY-LICENSES\.txt",
            r".*\.dist-info/sboms/.*\.cyclonedx\.json",
        ):
            assert any(re.fullmatch(needed, name) for name in names), f"no {needed} in {wheel.name}"
        strangers = [n for n in names if not re.match(r"jax2onnx/|jax2onnx-[\w.]+\.dist-info/", n)]
        assert not strangers, f"{wheel.name} has files of others: {strangers}"
        for name in (n for n in names if n.endswith(".cyclonedx.json")):
            check_sbom(archive.read(name).decode())
        (metadata,) = (n for n in names if n.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
        dead = re.findall(r"\]\((?!https://|#)[^)]*\)", text)
        assert not dead, f"a package index cannot follow these links: {dead}"
    assert "-cp311-abi3-" in wheel.name, f"{wheel.name} is for one version of Python"
    size = wheel.stat().st_size
    assert size < LARGEST, f"{wheel.name} has {size} bytes"
    if "linux" in wheel.name:
        glibc = re.search(r"manylinux_(\d+)_(\d+)", wheel.name)
        fits = glibc and (int(glibc[1]), int(glibc[2])) <= NEWEST_GLIBC
        assert fits or "musllinux" in wheel.name, f"{wheel.name} needs a newer system than promised"
    print(f"{wheel.name}: {size / 1e6:.1f} MB")


def check_sbom(text: str) -> None:
    """Checks that the SBOM is valid CycloneDX, with version and licence of every linked crate."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    sbom = json.loads(text)
    version = SchemaVersion.from_version(sbom["specVersion"])
    error = JsonStrictValidator(version).validate_str(text)
    assert error is None, f"the SBOM is not valid: {error}"
    listed = {(c["name"], c["version"]): c for c in sbom["components"]}
    licenses = (TOP / "THIRD-PARTY-LICENSES.txt").read_text(encoding="utf-8")
    linked = re.findall(r"^([\w-]+) (\d+\.\d+\.\d+\S*) \([\w.-]+\)$", licenses, re.MULTILINE)
    # The licence list covers all platforms; the SBOM may cover only one.
    missing = [
        c for c in linked if c not in listed and not c[0].startswith(("windows", "anstyle-w"))
    ]
    assert len(missing) < len(linked) / 10, f"not in the SBOM: {missing}"
    without = [name for (name, _), c in listed.items() if not c.get("licenses") and "purl" in c]
    assert not without, f"no licence in the SBOM: {without}"


def check_sdist(sdist: Path) -> None:
    """Checks that the sdist contains everything needed for a build, and no large files."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in (
        "Cargo.lock",
        "LICENSE",
        "THIRD-PARTY-LICENSES.txt",
        "python/README.md",
        "pyproject.toml",
    ):
        assert needed in names, f"no {needed} in {sdist.name}"
    print(f"{sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB")


def install_and_use(package: Path, python: str, *, cargo: bool) -> None:
    """Installs a package into a fresh environment and runs the smoke test from another folder."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subprocess.run([python, "-m", "venv", place / "env"], check=True)
        bin_ = place / "env" / ("Scripts" if os.name == "nt" else "bin")
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        environment.pop("PYTHONPATH", None)
        if not cargo:
            path = environment["PATH"].split(os.pathsep)
            path = [p for p in path if not shutil.which("cargo", path=p)]
            environment["PATH"] = os.pathsep.join(path)
        copy = shutil.copy(SMOKE_TEST, place)
        target = f"{package}[runtime]"
        for command in (
            [bin_ / "python", "-m", "pip", "install", "--quiet", target],
            [bin_ / "python", "-I", copy],
        ):
            subprocess.run(command, check=True, cwd=place, env=environment)


def wheel_from(sdist: Path, folder: str) -> Path:
    """Builds the wheel from the sdist alone. Optimising it would take minutes and prove nothing."""
    environment = {
        **os.environ,
        "MATURIN_PEP517_ARGS": "--profile=dev",
        "CARGO_TARGET_DIR": str(TOP / "target" / "sdist"),
    }
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, sdist]
    subprocess.run(command, check=True, env=environment, cwd=folder)
    (wheel,) = Path(folder).glob("*.whl")
    return wheel


def main() -> None:
    """Checks the wheel and the sdist in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--contents-only", action="store_true")
    options = parser.parse_args()
    wheels, sdists = ([*options.folder.glob(kind)] for kind in ("*.whl", "*.tar.gz"))
    assert wheels, f"no wheel in {options.folder}"
    for wheel in wheels:
        check_wheel(wheel)
    for sdist in sdists:
        check_sdist(sdist)
    if options.contents_only:
        return
    found = list(pythons())
    assert found, "no Python to test with"
    for wheel in wheels:
        for python in found:
            install_and_use(wheel.absolute(), python, cargo=False)
    for sdist in sdists:
        with tempfile.TemporaryDirectory() as folder:
            wheel = wheel_from(sdist.absolute(), folder)
            for python in found:
                install_and_use(wheel, python, cargo=False)


if __name__ == "__main__":
    main()
