"""Prompt files: text with one prompt a line, or JSON lines with a ``prompt`` key."""

import json
from pathlib import Path
from typing import cast

from knowngood.errors import UsageError


def read_prompts(path: Path) -> tuple[str, ...]:
    """Read the prompts of a file; empty lines are skipped.

    Raises:
        UsageError: The file cannot be read, has no prompt, or a line of it is not what its suffix says.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the prompt file {path}: {error}", hint="it must be UTF-8 text") from error
    # Not splitlines(): a prompt may hold form feeds and Unicode line separators.
    lines = [(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), start=1)]
    is_json = path.suffix == ".jsonl"
    found = tuple(
        _prompt_of(line, where=f"{path}, line {number}") if is_json else line for number, line in lines if line.strip()
    )
    if not found:
        raise UsageError(f"the prompt file {path} has no prompt", hint="write one prompt per line")
    return found


def _prompt_of(line: str, *, where: str) -> str:
    hint = 'each line must be an object such as {"prompt": "Once upon a time"}'
    try:
        row: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {error}", hint=hint) from error
    prompt = cast("dict[str, object]", row).get("prompt") if isinstance(row, dict) else None
    if not isinstance(prompt, str) or not prompt:
        raise UsageError(f"{where}: no text under the key 'prompt'", hint=hint)
    return prompt
