#!/usr/bin/env python3
"""A worker in Python: takes jobs of the queue `default` and does them. See sdk/python/README.md.

    FORGERUN_URL=http://127.0.0.1:8080 FORGERUN_API_KEY=frk_... python3 examples/worker.py
"""
import pathlib, sys

sys.path.append(str(pathlib.Path(__file__).parents[1] / "sdk/python/src"))  # not needed after: pip install forgerun
from forgerun import Worker

worker = Worker(queues=["default"])

@worker.job("text.upper")
def upper(text):
    return {"text": text.upper()}

worker.run()
