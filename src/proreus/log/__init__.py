"""Durable logs: numbered records that are kept before they are acknowledged, wherever they are kept."""
