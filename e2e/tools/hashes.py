"""Writes the hashes of all wheels into the requirements named on the command line: python3 hashes.py requirements*.txt

What is pinned stays pinned; pip, as it is configured, is asked which wheel of it each platform and version of Python gets.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

# Every tag that a machine takes, the newest first.
PLATFORMS = [
    [f"manylinux_2_{n}_x86_64" for n in range(34, 4, -1)] + ["manylinux2014_x86_64"],
    [f"manylinux_2_{n}_aarch64" for n in range(34, 16, -1)] + ["manylinux2014_aarch64"],
    [f"macosx_{n}_0_{arch}" for n in range(14, 10, -1) for arch in ("arm64", "universal2")] + [f"macosx_10_{n}_universal2" for n in range(15, 8, -1)],
]
PYTHONS = ["3.11", "3.12", "3.13"]


def ask(pins, platform, python):
    """The hashes of what pip would install, by name. What a platform does not have is asked for by itself, and left out."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps", "--report", report,
                   "--target", os.path.join(folder, "target"), "--only-binary", ":all:", "--python-version", python]
        for tag in platform:
            command += ["--platform", tag]
        env = {k: v for k, v in os.environ.items() if k != "PIP_FIND_LINKS"}
        done = subprocess.run(command + pins, env=env, capture_output=True, text=True)
        if done.returncode != 0:
            if len(pins) == 1:
                print(f"{pins[0]}: none for {platform[0]}, Python {python}", file=sys.stderr)
                return {}
            middle = len(pins) // 2
            return ask(pins[:middle], platform, python) | ask(pins[middle:], platform, python)
        with open(report) as f:
            installs = json.load(f)["install"]
    return {key(i["metadata"]["name"]): i["download_info"]["archive_info"]["hashes"]["sha256"] for i in installs}


def key(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def main():
    for file in sys.argv[1:]:
        with open(file) as f:
            lines = [line.rstrip() for line in f.read().replace("\\\n", "").splitlines()]
        pins = [line.split(" ")[0] for line in lines if "==" in line]
        hashes = {}
        for platform in PLATFORMS:
            for python in PYTHONS:
                for name, sha256 in ask(pins, platform, python).items():
                    hashes.setdefault(name, set()).add(sha256)
        with open(file, "w") as f:
            for line in lines:
                if "==" in line:
                    pin = line.split(" ")[0]
                    line = pin + "".join(f" \\\n    --hash=sha256:{h}" for h in sorted(hashes.get(key(pin.split("==")[0]), [])))
                    if "--hash" not in line:
                        sys.exit(f"{file}: no wheel of {pin} for any platform")
                f.write(line + "\n")


main()
