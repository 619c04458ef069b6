"""For each argument that a tool may need, a value that passes."""

from service.contract.data import Json

PATCH = """From 1 Mon Sep 17 00:00:00 2001
Subject: [PATCH] Say bye

---
--- a/app.py
+++ b/app.py
@@ -1 +1 @@
-print('hello')
+print('bye')
"""
GOOD: Json = {
    "branch": "main",
    "branches": ["main"],
    "commit": "1" * 40,
    "commits": ["main"],
    "conflict_id": "3b0e2c9a-7a55-4f0e-9f4e-6f1d2f9b1c11",
    "edits": [{"path": "app.py", "search": "hello", "replace": "bye"}],
    "files": [{"path": "new.txt", "content": "new\n"}],
    "idempotency_key": "key-for-this-one",
    "into": "main",
    "message": "Change files",
    "name": "v1",
    "onto": "main",
    "patch": PATCH,
    "path": "app.py",
    "reason": "Because it was asked.",
    "refs": ["refs/heads/main"],
    "proposal_id": "3b0e2c9a-7a55-4f0e-9f4e-6f1d2f9b1c11",
    "repository_id": "3b0e2c9a-7a55-4f0e-9f4e-6f1d2f9b1c11",
    "restore_point_id": "3b0e2c9a-7a55-4f0e-9f4e-6f1d2f9b1c11",
    "source": "main",
    "steps": [{"kind": "propose_tag", "arguments": {"name": "v1", "target": "main", "message": "One"}}],
    "target": "main",
    "text": "hello",
    "view": "overview",
}
