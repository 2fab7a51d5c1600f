"""The TypeScript client in a headless Chromium: bundled as a page has it, started by a program on Node.js."""

from __future__ import annotations

from pathlib import Path

from scripts.clients import typescript
from scripts.toolchains import Missing, program, run

SPEAKS_HTTP = True
"""Its target is the URL of the HTTP port, and its page's origin has to be one that the server allows."""


def build(cache: Path) -> None:
    """The page and what starts the browser. Raises Missing."""
    chromium()
    typescript.build(cache)
    package = typescript.package_in(cache)
    bundle = package / "dist" / "conformance" / "page.bundle.js"
    if not bundle.exists():
        esbuild = package / "node_modules" / ".bin" / "esbuild"
        page = package / "dist" / "conformance" / "page.js"
        run(esbuild, page, "--bundle", "--format=esm", f"--outfile={bundle}", cwd=package)


def chromium() -> str:
    """The browser of the system. Raises Missing."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        try:
            return program(name)
        except Missing:
            continue
    raise Missing("chromium is not installed: the package of the distribution has it")


def runner(cache: Path) -> list[str]:
    """The command that answers cases."""
    script = typescript.package_in(cache) / "dist" / "conformance" / "browser.js"
    return ["env", f"CHROMIUM={chromium()}", program("node"), str(script)]


def example(cache: Path) -> list[str]:
    """None of its own: a page has no terminal. That of Node.js stands for both."""
    return typescript.example(cache)


def unit_tests(cache: Path) -> list[str]:
    """Those of the package, which need no browser."""
    return typescript.unit_tests(cache)


def lint(cache: Path) -> list[list[str]]:
    """None: see ``typescript``."""
    del cache
    return []
