"""From the flags of `proreus serve` to the options of a service; needs the extra `serve`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from proreus.httpserver.tls import check_credentials
from proreus.log.protocol import LogLimits, LogPlace
from proreus.serving.admission import read_token
from proreus.serving.decision_service import ServiceOptions
from proreus.serving.online.learner import OnlineSettings
from proreus.serving.server.grpc_calls import GrpcLimits
from proreus.serving.server.http import HttpLimits
from proreus.serving.service import Learning, ServingOptions
from proreus.serving.validation import Dimensions

if TYPE_CHECKING:
    from proreus.cli.serve import ServeArguments


def log_limits(max_log: int) -> LogLimits:
    """Segments are small beside the whole, so that there is always one to drop."""
    usual = LogLimits()
    if not max_log:
        return usual
    return LogLimits(min(usual.segment_bytes, max(max_log // 8, 1)), max_log)


def log_in(address: str) -> Callable[[str, str], LogPlace] | None:
    """Where experience is logged, by the model's name and its folder's id; None: in files beside it."""
    if not address:
        return None
    from proreus.engine.store.log.places import StorePlace  # only who keeps it in a store needs one

    StorePlace.of(address, "", "")  # an address that cannot be meant is said before anything is loaded
    return partial(StorePlace.of, address)


def _online(arguments: ServeArguments) -> OnlineSettings:
    """How the service learns: what a node is known by moves faster than the weights that all nodes share."""
    learner = {"node_memory": arguments.node_memory, "memory_rate": 30.0, "device": arguments.device}
    return OnlineSettings(learner=learner)


def serving_options(arguments: ServeArguments, learner: str) -> ServingOptions:
    """What the flags mean; `learner` is "" where nothing learns."""
    limits, security = arguments.limits, arguments.security
    return ServingOptions(
        service=ServiceOptions(
            Dimensions(arguments.state_dim, arguments.action_dim),
            deterministic=arguments.deterministic,
            seed=arguments.common.seed,
            deadline_seconds=limits.deadline_ms / 1e3,
            mind_refusals=arguments.mind_refusals,
        ),
        store=arguments.store,
        model=arguments.model,
        policy=arguments.policy,
        learning=Learning(learner, _online(arguments)) if learner else None,
        log=log_limits(limits.max_log),
        log_in=log_in(arguments.log),
        token=(
            None if security.token_file is None else read_token(security.token_file, strict=security.strict)
        ),
        rate=limits.rate,
        http=HttpLimits(limits.max_body, limits.max_concurrency, log_every=limits.log_sample),
        grpc=GrpcLimits(limits.max_concurrency, limits.max_body),
        credentials=check_credentials(security.tls_cert, security.tls_key),
        allowed_hosts=security.allowed_host,
        anonymous_updates=security.anonymous_updates,
        decide_units=limits.max_decide_cost,
    )
