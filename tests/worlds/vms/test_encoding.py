"""What learners over servers see, computed by the kernel, is what plain NumPy says."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.worlds.vms.encoding.rows import CONTEXT_FEATURES, ROW_FEATURES, encode_servers


@settings(max_examples=60)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 9), st.booleans())
def test_the_kernel_agrees_with_plain_numpy(seed: int, lanes: int, servers: int, double: bool) -> None:
    random, size = np.random.default_rng(seed), (40.0, 90.0)
    obs = random.uniform(0, 1, (lanes, servers, 2, 2)) * size
    need = random.uniform(0.1, 0.3, (lanes, 2)) * size
    feat = np.zeros((lanes, 2, 2, 2))
    feat[:, 0, 0] = feat[:, 1, 1] = need
    if double:
        feat[:, 0, 1] = feat[:, 1, 0] = need
    avail = random.random((lanes, 2 * servers)) < 0.5
    encoded = encode_servers(obs, feat, avail, size)
    left, asked = obs / size, feat / size
    assert encoded.rows.shape == (lanes, 2 * servers, len(ROW_FEATURES))
    assert encoded.context.shape == (lanes, len(CONTEXT_FEATURES))
    for e in range(lanes):
        for place in range(2 * servers):
            server, here = divmod(place, 2)
            mine, other = left[e, server, here], left[e, server, 1 - here]
            after = (mine - asked[e, here, here], other - asked[e, here, 1 - here])
            np.testing.assert_allclose(
                encoded.rows[e, place], np.concatenate([mine, other, *after]), rtol=1e-5, atol=1e-6
            )
        wanted = [
            *asked[e, 0].sum(axis=0),
            double,
            *left[e].mean(axis=(0, 1)),
            avail[e].mean(),
        ]
        np.testing.assert_allclose(encoded.context[e], wanted, rtol=1e-5)
    assert (encoded.legal == avail).all()
