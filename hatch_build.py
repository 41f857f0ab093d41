"""Readme and links of the package as PyPI shows them, where relative links of README.md lead nowhere.

With the address of the repository in the environment variable COUNTERRANK_REPOSITORY, links lead to the files of the
tag there. Without it, links become plain text and images are removed. A wheel has the readme and links of its sdist.
"""

import os
import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?![a-z]+:)([^)\s]+)\)")


def published(readme: str, files: str | None) -> str:
    """A readme in Markdown without relative links; `files` is the address of the repository's files at a tag."""

    def replaced(link: re.Match[str]) -> str:
        image, text, path = link.groups()
        if files:
            return f"{image}[{text}]({files}/{path}{'?raw=true' if image else ''})"
        return "" if image else text

    return _RELATIVE_LINK.sub(replaced, readme)


class CustomMetadataHook(MetadataHookInterface):
    """Sets `readme` and, if the repository is known, `urls`."""

    def update(self, metadata: dict) -> None:
        """Add both fields to the metadata of pyproject.toml."""
        if "readme" in metadata:  # of an sdist
            return
        repository = os.environ.get("COUNTERRANK_REPOSITORY", "").rstrip("/")
        files = f"{repository}/blob/v{metadata['version']}" if repository else None
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": published(text, files)}
        if files:
            metadata["urls"] = {
                "Repository": repository,
                "Documentation": f"{files}/README.md#documentation",
                "Changelog": f"{files}/CHANGELOG.md",
            }
