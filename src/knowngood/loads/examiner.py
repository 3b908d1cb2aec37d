"""The answers client as the procedures want it: one dialect, any server's URL."""

from collections.abc import Sequence

from knowngood.loads import answers
from knowngood.reason.answers import Answer, Comparison


class Questioner:
    """Asks servers for greedy answers and holds one against the other.

    Args:
        dialect: ``llamacpp`` works on token ids, ``openai`` on text.
    """

    def __init__(self, dialect: answers.Endpoint) -> None:
        self.dialect: answers.Endpoint = dialect

    def ask(self, url: str, prompts: Sequence[str], *, n_tokens: int) -> tuple[Answer, ...]:
        """Let a server answer greedily, one prompt at a time.

        Raises:
            LoadError: It does not answer.
        """
        return answers.ask(self.at(url), prompts, n_tokens=n_tokens)

    def compare(self, url: str, mine: Answer, theirs: Answer) -> Comparison:
        """Hold the candidate's answer (``theirs``) against the baseline's, asking the baseline that runs at ``url``.

        Raises:
            LoadError: It does not answer.
        """
        return answers.compare(self.at(url), mine, theirs)

    def at(self, url: str) -> answers.Server:
        """A server at a URL, in this dialect."""
        return answers.Server(url=url, endpoint=self.dialect)
