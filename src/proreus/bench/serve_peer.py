"""The peer of `proreus bench serve`: a minimal Flask service over an eager torch network.

The PPO service of the k8s simulator in the fewest lines: its actor network (two hidden layers of 256), its
/predict, and `app.run`, as its users start it. Run as a process of its own: `python -m
proreus.bench.serve_peer PORT STATE ACTIONS`.
"""

from __future__ import annotations

import logging
import sys

import torch
from flask import Flask, Response, jsonify, request
from torch import nn


def make_app(state_dim: int, action_dim: int) -> Flask:
    torch.manual_seed(0)
    actor = nn.Sequential(
        nn.Linear(state_dim, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, action_dim)
    )
    app = Flask(__name__)

    @app.post("/predict")
    def predict() -> tuple[Response, int] | Response:
        state = (request.get_json(silent=True) or {}).get("state")
        if not isinstance(state, list) or len(state) != state_dim:
            return jsonify({"error": "state"}), 400
        with torch.no_grad():
            logits = actor(torch.tensor(state, dtype=torch.float32).unsqueeze(0))
            action = torch.multinomial(torch.softmax(logits, dim=-1), 1).item()
        return jsonify({"action": int(action)})

    @app.get("/health")
    def health() -> Response:
        return jsonify({"status": "ok"})

    return app


if __name__ == "__main__":
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    make_app(int(sys.argv[2]), int(sys.argv[3])).run(host="127.0.0.1", port=int(sys.argv[1]))
