"""Builds the standalone command line for a platform and packs it with its licences in
dist/programs.
"""

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

TOP = Path(__file__).parent.parent
PLACE = TOP / "dist" / "programs"
# The README of the packages, whose links point to the repository.
BESIDE = ("LICENSE", "THIRD-PARTY-LICENSES.txt", "python/README.md")


def main(target: str) -> None:
    """Builds, tests and packs the program."""
    build = ["cargo", "build", "--profile=dist", "--locked", "--package=cli", f"--target={target}"]
    subprocess.run(build, cwd=TOP, check=True)
    name = "jax2onnx.exe" if "windows" in target else "jax2onnx"
    target_dir = Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target"))
    program = target_dir / target / "dist" / name
    shown = subprocess.run([program, "doctor"], check=True, capture_output=True, text=True).stdout
    assert "standalone program" in shown, shown
    version = tomllib.loads((TOP / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    stem = f"jax2onnx-{version}-{target}"
    PLACE.mkdir(parents=True, exist_ok=True)
    files = [program, *(TOP / file for file in BESIDE)]
    if "windows" in target:
        with zipfile.ZipFile(PLACE / f"{stem}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                archive.write(file, f"{stem}/{file.name}")
    else:
        with tarfile.open(PLACE / f"{stem}.tar.gz", "w:gz") as archive:
            for file in files:
                archive.add(file, f"{stem}/{file.name}")
    print(f"{stem}: {program.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(sys.argv[1])
