"""A real Chromium without a screen, driven by playwright: Debian's, installed or unpacked below .cache."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from debian_packages import environment, unpacked
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    StorageState,
    expect,
    sync_playwright,
)

_PROGRAM = "chromium-headless-shell"
_PACKAGES = (_PROGRAM, "fonts-dejavu-core", "fontconfig-config")
_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>/usr/share/fonts/truetype/dejavu</dir>
  <dir>{root}/usr/share/fonts/truetype/dejavu</dir>
  <cachedir>{folder}</cachedir>
  <match target="pattern"><edit name="family" mode="append"><string>DejaVu Sans</string></edit></match>
  <alias><family>system-ui</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""
_TELL_VIOLATIONS = """
addEventListener('securitypolicyviolation', event => console.error(
    `CSP of ${event.documentURI}: ${event.violatedDirective} refused ${event.blockedURI} ${event.sample}`))
"""
ACTION_MS = 120_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that has the same fonts on every machine. Raises NoPackageError where there is none."""
    with tempfile.TemporaryDirectory(prefix="tidegate-fonts-") as folder, sync_playwright() as playwright:
        expect.set_options(timeout=ACTION_MS)  # of itself it waits for 5 s, which a busy machine takes for a preview
        program, around = _program()
        fonts = Path(folder) / "fonts.conf"
        fonts.write_text(_FONTS.format(root=unpacked_root(program), folder=folder), encoding="utf-8")
        browser = playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"],
            env={**around, "FONTCONFIG_FILE": str(fonts)},
        )
        yield browser
        browser.close()


def unpacked_root(program: str) -> Path:
    """The folder that has the program's usr/, or would have it: `/` of one that is installed."""
    return Path(program).parents[3] if "/usr/lib/" in program else Path("/")


def _program() -> tuple[str, Mapping[str, str]]:
    installed = shutil.which(_PROGRAM)
    if installed is not None:
        return installed, os.environ
    root = unpacked("chromium", _PACKAGES)
    return str(root / "usr/lib/chromium" / _PROGRAM), environment(root)


@dataclass
class Visitor:
    """Somebody with a browser at an address, who takes down what pages of Tidegate complain about.

    `complaints` are errors of scripts and of the console, refusals of the Content-Security-Policy, and dialogs, none of
    which a page of Tidegate ever has.
    """

    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.context.set_default_timeout(ACTION_MS)
        self.context.add_init_script(_TELL_VIOLATIONS)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"{self.page.url}: {error}"))
        self.page.on("dialog", self._dialog)

    def _console(self, message: ConsoleMessage) -> None:
        place = f"{message.location.get('url', '')} {message.text}"
        if message.type == "error" and "/tidegate/" in place:
            self.complaints.append(place)

    def _dialog(self, dialog: Dialog) -> None:
        self.complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def visitor(
    browser: Browser,
    url: str,
    *,
    session: StorageState | None = None,
    width: int = 1280,
    height: int = 800,
    dark: bool = False,
) -> Iterator[Visitor]:
    """A new one, with cookies of their own, or those of a session; the window's size in pixels."""
    with browser.new_context(
        base_url=url,
        storage_state=session,
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    ) as context:
        yield Visitor(context, context.new_page())
