"""Durable logs that are kept in a store: see `proreus.durable.protocol` for what such a log promises."""
