"""Serverless functions: requests, instances that start cold and stay warm, nodes that are paid while used."""
