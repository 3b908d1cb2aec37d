import gzip
from pathlib import Path

import pytest

from knowngood.errors import LoadError
from knowngood.loads.exchange import Exchange
from knowngood.loads.recording import Recorder
from knowngood.loads.samples import frames, read_samples


def finished(index: int) -> Exchange:
    one = Exchange(index=index, phase="measured", scheduled=1_000_400, sent=1_001_600)
    one.times = [2_000_400, 2_000_600, 5_000_000]
    one.ended = 6_000_000
    one.tokens, one.prompt_tokens = 4, 9
    return one


def write(path: Path) -> list[int]:
    """Write three frames after the header's; return the file's size after each of the four."""
    recorder = Recorder(path.open("wb", buffering=0), origin=1_000_000, about={"model": "m", "priority": "nice"})
    recorder.request(finished(0))
    recorder.flush()
    failed = finished(1)
    failed.fail("timeout", "no end after 1 s", 7_000_000)
    recorder.request(failed)
    recorder.window(start=1_000_000, end=9_000_000)
    recorder.flush()
    recorder.request(finished(2))
    recorder.close()
    return [end for _, end in frames(path.read_bytes())]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl.gz"
    write(path)
    samples = read_samples(path)
    assert samples.is_whole
    assert (samples.header.model, samples.header.priority) == ("m", "nice")
    assert samples.window is not None
    assert (samples.window.start_us, samples.window.end_us) == (0, 8000)
    one, failed, _ = samples.requests
    assert (one.scheduled_us, one.sent_us, one.ttft_us, one.e2e_us) == (0, 2, 998, 4998)
    assert (one.gaps_us, one.tokens, one.prompt_tokens, one.error) == ([1, 2999], 4, 9, "")
    assert (failed.error, failed.detail, failed.e2e_us) == ("timeout", "no end after 1 s", 5998)


def test_any_gzip_reader_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl.gz"
    write(path)
    assert len(gzip.decompress(path.read_bytes()).splitlines()) == 5


def test_a_file_cut_anywhere_reads_up_to_its_last_whole_frame(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl.gz"
    sizes = write(path)
    data = path.read_bytes()
    for cut in range(sizes[0], len(data)):
        path.write_bytes(data[:cut])
        samples = read_samples(path)
        assert [one.index for one in samples.requests] == [0, 1, 2][: sum(cut >= size for size in sizes[1:])]
        assert samples.is_whole is (cut in sizes)
        assert (samples.window is not None) is (cut >= sizes[2])


def test_a_file_without_a_whole_frame_is_no_samples_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl.gz"
    size = write(path)[0]
    path.write_bytes(path.read_bytes()[: size - 1])
    with pytest.raises(LoadError, match="not a samples file"):
        read_samples(path)


@pytest.mark.parametrize(
    "content", [b"", b"plain text", gzip.compress(b"no json\n"), gzip.compress(b'{"record":"x"}\n')]
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(LoadError, match="samples file"):
        read_samples(path)


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"record":"header","version":2}\n'))
    with pytest.raises(LoadError, match="version 1"):
        read_samples(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="cannot read the samples"):
        read_samples(tmp_path / "none")


def test_a_write_that_fails_is_told_at_the_latest_on_closing() -> None:
    recorder = Recorder(Path("/dev/full").open("wb", buffering=0), origin=0, about={})  # noqa: SIM115
    with pytest.raises(OSError, match="No space left"):
        recorder.close()
