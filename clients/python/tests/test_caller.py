import asyncio
import json
import sys
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[1]))
import callonce  # noqa: E402

PLACE = "callonce.dev/idempotency-key"


class RPCError(Exception):
    def __init__(self, code, data):
        super().__init__("This call …")
        self.error = SimpleNamespace(code=code, message="This call …", data=data)


def refusal(kind, ran, retry):
    return {"type": kind, "may_have_run": ran, "retry": retry, "operation": "0123", "retry_after_ms": 1}


def result(meta=None, text=""):
    return SimpleNamespace(meta=meta, content=[SimpleNamespace(type="text", text=text)])


class Session:
    """Answers one call after the other, the last answer again and again, and notes their keys."""

    def __init__(self, *answers):
        self.answers, self.keys = list(answers), []

    async def call_tool(self, name, arguments, meta):
        self.keys.append(meta[PLACE])
        answer = self.answers[min(len(self.keys), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


IN_FLIGHT = RPCError(-31410, refusal("idempotency_in_flight", "running", "same_key_later"))
LOST = RPCError(-32000, {"type": "callonce_answer_lost"})


class TestCaller(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name, "keys.json")

    def call(self, session, intent="i", **options):
        caller = callonce.Caller(session, callonce.FileStore(self.file), **options)
        return asyncio.run(caller.call("charge", {}, intent=intent))

    def test_one_key_for_an_intent_over_restarts(self):
        session = Session(result())
        for intent in ("a", "a", "b"):
            self.call(session, intent)
        first, again, other = session.keys
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertTrue(json.loads(self.file.read_text())["intents"]["a"]["done"])

    def test_repeats_under_the_same_key(self):
        session = Session(IN_FLIGHT, LOST, ConnectionResetError(), result({"callonce.dev/replayed": True}))
        self.assertTrue(callonce.replayed(self.call(session)))
        self.assertEqual(len(session.keys), 4)
        self.assertEqual(len(set(session.keys)), 1)

    def test_stops_with_a_typed_error(self):
        for retry, kind in {
            "reconcile_first": callonce.ReconcileFirst, "new_key_if_new_intent": callonce.KeyConflict,
            "after_fix": callonce.Refused, "never": callonce.Refused, "a word of the future": callonce.Refused,
        }.items():  # fmt: skip
            said = refusal("idempotency_x", "unknown", retry)
            for answer in (RPCError(-31411, said), result({"callonce.dev/refusal": said}, "This call …")):
                session = Session(answer)
                with self.subTest(retry=retry), self.assertRaises(kind) as raised:
                    self.call(session)
                self.assertEqual((raised.exception.refusal.type, raised.exception.refusal.message), ("idempotency_x", "This call …"))
                self.assertEqual(len(session.keys), 1)

    def test_an_error_of_the_servers_is_final(self):
        session = Session(RPCError(-32602, None))
        with self.assertRaises(RPCError):
            self.call(session)
        self.assertEqual(len(session.keys), 1)

    def test_patience_ends(self):
        with self.assertRaises(callonce.NotSettled) as raised:
            self.call(Session(IN_FLIGHT), patience=0.5)
        self.assertEqual(raised.exception.refusal.may_have_run, "running")

    def test_a_key_that_may_be_forgotten_is_not_sent(self):
        session = Session(result())
        self.call(session)
        kept = json.loads(self.file.read_text())
        for sent in (kept["intents"]["i"]["sent"] - 301, kept["intents"]["i"]["sent"] + 3600):
            kept["intents"]["i"]["sent"] = sent
            self.file.write_text(json.dumps(kept))
            with self.assertRaises(callonce.ReconcileFirst) as raised:
                self.call(session)
            self.assertEqual(raised.exception.refusal.may_have_run, "yes")
        self.assertEqual(len(session.keys), 1)
        callonce.Caller(session, callonce.FileStore(self.file)).forget("i")
        self.call(session)
        self.assertNotEqual(*session.keys)

    def test_a_broken_file_sends_nothing(self):
        session = Session(result())
        for text in ("{", "{}", '{"version": 2, "intents": {}}'):
            self.file.write_text(text)
            with self.assertRaises(ValueError):
                self.call(session)
        self.assertEqual(session.keys, [])


if __name__ == "__main__":
    unittest.main()
