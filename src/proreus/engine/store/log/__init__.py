"""Durable logs that are kept in a store: see `proreus.log.protocol` for what such a log promises."""
