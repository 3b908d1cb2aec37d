"""Benchmark clients of others: how each is told what to do, and what its results mean in our words.

``docs/how-to/own-benchmark.md`` has the table of fields and metrics.
"""

from collections.abc import Mapping

from knowngood.loads.peers.aiperf import AIPERF
from knowngood.loads.peers.guidellm import GUIDELLM
from knowngood.loads.peers.peer import Peer
from knowngood.loads.peers.sglang import SGLANG
from knowngood.loads.peers.vllm import VLLM

PEERS: Mapping[str, Peer] = {peer.name: peer for peer in (AIPERF, GUIDELLM, SGLANG, VLLM)}
"""By the name in ``[load] client``."""
