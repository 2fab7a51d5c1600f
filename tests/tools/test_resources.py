"""Resources: a class as tools, one transaction for each call, and the audit row beside the change."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import BaseModel
from tools.kit import run_tool, view_of, view_of_functions, words_of

from turnwired.domain.errors import ConfigError
from turnwired.domain.failure import Reason
from turnwired.domain.message import ToolResultStatus
from turnwired.domain.policy import ArgumentValidation
from turnwired.tools.python import PythonToolset, ToolContext, load_functions, tool
from turnwired.tools.registry import Source
from turnwired.tools.resource import AuditRow, Tx, resource


class Book(BaseModel):
    isbn: str
    title: str


class Database:
    """SQLite with one connection for each transaction, as a web application has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.threads: set[int] = set()
        with self.transaction() as tx:
            tx.execute("CREATE TABLE book (isbn TEXT PRIMARY KEY, title TEXT)")
            tx.execute("CREATE TABLE audit (tool TEXT, principal TEXT, call_id TEXT, arguments TEXT)")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        self.threads.add(threading.get_ident())
        connection = sqlite3.connect(self.path, timeout=5)
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    def rows(self, table: str) -> list[tuple[object, ...]]:
        with self.transaction() as tx:
            return list(tx.execute(f"SELECT * FROM {table}"))


@resource
class BookOrder:
    """All verbs but list, an action, and helpers that are nobody's business."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.audit_fails = False

    def transaction(self, context: ToolContext) -> AbstractContextManager[sqlite3.Connection]:
        assert context.call_id == "call-1"
        return self.database.transaction()

    def audit(self, tx: sqlite3.Connection, row: AuditRow) -> None:
        if self.audit_fails:
            raise OSError("the audit trail is full")
        values = (row.tool, row.caller.principal, row.call_id, json.dumps(dict(row.arguments), default=str))
        tx.execute("INSERT INTO audit VALUES (?, ?, ?, ?)", values)

    def get(self, isbn: str, *, tx: Tx[sqlite3.Connection]) -> Book | None:
        """Read one book by its number."""
        row = tx.execute("SELECT isbn, title FROM book WHERE isbn = ?", (isbn,)).fetchone()
        return None if row is None else Book(isbn=row[0], title=row[1])

    def search(self, text: str, tx: Tx[sqlite3.Connection]) -> list[str]:
        return [row[0] for row in tx.execute("SELECT title FROM book WHERE title LIKE ?", (f"%{text}%",))]

    def create(self, book: Book, tx: Tx[sqlite3.Connection]) -> Book:
        tx.execute("INSERT INTO book VALUES (?, ?)", (book.isbn, book.title))
        return book

    def update(self, isbn: str, title: str, tx: Tx[sqlite3.Connection], context: ToolContext) -> str:
        tx.execute("UPDATE book SET title = ? WHERE isbn = ?", (title, isbn))
        return context.call_id

    def delete(self, isbn: str, tx: Tx[sqlite3.Connection]) -> None:
        tx.execute("DELETE FROM book WHERE isbn = ?", (isbn,))

    @tool(destructive=False, description="Order a book and take it off the shelf.")
    def order(self, isbn: str, tx: Tx[sqlite3.Connection]) -> str:
        tx.execute("INSERT INTO book VALUES (?, 'ordered')", (f"order-{isbn}",))
        if isbn == "missing":
            raise LookupError("there is no such book")
        return "ordered"

    def helper(self) -> str:
        return "no tool"


@pytest.fixture
def orders(tmp_path: Path) -> BookOrder:
    return BookOrder(Database(tmp_path / "books.sqlite"))


@pytest.mark.requirement("RES-1", "RES-2", "RES-5")
async def test_a_class_is_a_tool_for_each_verb_that_it_has(orders: BookOrder) -> None:
    view = await view_of(Source(PythonToolset([orders])))
    hints = {tool.ref.routed_name: tool.annotations for tool in view.tools}
    assert {name: (hint.read_only, hint.destructive) for name, hint in hints.items()} == {
        "create_book_order": (None, False),
        "delete_book_order": (None, True),
        "get_book_order": (True, None),
        "order_book_order": (None, False),
        "search_book_order": (True, None),
        "update_book_order": (None, None),
    }
    described = {tool.ref.routed_name: tool for tool in view.tools}
    assert described["get_book_order"].description == "Read one book by its number."
    assert described["search_book_order"].description == "Search a book_order."
    assert described["order_book_order"].description == "Order a book and take it off the shelf."
    schema = json.loads(described["get_book_order"].input_schema_json)
    assert list(schema["properties"]) == ["isbn"], "the model sees neither transaction nor context"
    assert json.loads(described["get_book_order"].output_schema_json or "{}") == {}


@pytest.mark.requirement("RES-3", "RES-4", "RES-5", "RES-9")
async def test_a_call_is_one_transaction_with_its_audit_row(orders: BookOrder) -> None:
    database = orders.database
    view = await view_of(Source(PythonToolset([orders])))
    made = await run_tool(view, "create_book_order", '{"book":{"isbn":"1","title":"Momo"}}')
    assert made.status is ToolResultStatus.OK
    assert words_of(await run_tool(view, "update_book_order", '{"isbn":"1","title":"Momo!"}')) == "call-1"
    assert "Momo!" in words_of(await run_tool(view, "search_book_order", '{"text":"Mo"}'))
    assert (await run_tool(view, "order_book_order", '{"isbn":"9"}')).status is ToolResultStatus.OK
    assert database.rows("book") == [("1", "Momo!"), ("order-9", "ordered")]
    assert [row[0] for row in database.rows("audit")] == ["create", "update", "order"], "reading is not audited"
    assert database.rows("audit")[1][1:] == ("anonymous", "call-1", '{"isbn": "1", "title": "Momo!"}')
    assert (await run_tool(view, "delete_book_order", '{"isbn":"1"}')).status is ToolResultStatus.OK
    assert database.rows("book") == [("order-9", "ordered")]
    assert database.threads - {threading.get_ident()}, "a plain method runs in a thread, its transaction with it"


@pytest.mark.requirement("RES-3", "RES-4")
async def test_what_fails_changes_nothing(orders: BookOrder) -> None:
    view = await view_of(Source(PythonToolset([orders])))
    failed = await run_tool(view, "order_book_order", '{"isbn":"missing"}')
    assert failed.status is ToolResultStatus.ERROR
    assert words_of(failed).endswith("LookupError: there is no such book")
    orders.audit_fails = True
    unaudited = await run_tool(view, "create_book_order", '{"book":{"isbn":"1","title":"Momo"}}')
    assert unaudited.status is ToolResultStatus.ERROR
    assert (orders.database.rows("book"), orders.database.rows("audit")) == ([], [])


@pytest.mark.requirement("RES-6")
async def test_what_is_not_found_is_an_error_with_words(orders: BookOrder) -> None:
    view = await view_of(Source(PythonToolset([orders])))
    result = await run_tool(view, "get_book_order", '{"isbn":"1"}')
    assert result.status is ToolResultStatus.ERROR
    assert result.failure is not None
    assert result.failure.reason is Reason.TOOL_FAILED
    assert "There is no such book_order." in result.failure.message


@pytest.mark.requirement("RES-5")
async def test_the_model_cannot_give_what_it_does_not_see(orders: BookOrder) -> None:
    view = await view_of(Source(PythonToolset([orders])))
    for hidden in ("tx", "context", "turnwire_context"):
        checked = view.check("delete_book_order", json.dumps({"isbn": "1", hidden: 1}), ArgumentValidation.STRICT)
        assert checked.failure is not None


class Log:
    """What the async resources did, in order."""

    said: ClassVar[list[str]] = []


@resource(name="note")
class AsyncNotes:
    """Async methods; transaction and audit async too."""

    @asynccontextmanager
    async def transaction(self, context: ToolContext) -> AsyncIterator[str]:
        Log.said.append("begin")
        try:
            yield "tx"
        except LookupError:
            Log.said.append("rollback")
            raise
        Log.said.append("commit")

    async def audit(self, tx: str, row: AuditRow) -> None:
        Log.said.append(f"audit {row.resource} {row.tool} in {tx}")

    async def create(self, text: str, tx: Tx[str]) -> str:
        Log.said.append(f"create in {tx}")
        if text == "bad":
            raise LookupError("no")
        return text


@resource(name="plain_note")
class MixedNotes(AsyncNotes):
    """Async methods over a plain transaction and audit."""

    @contextmanager
    def transaction(self, context: ToolContext) -> Iterator[str]:  # type: ignore[override]
        Log.said.append("begin")
        yield "plain"
        Log.said.append("commit")

    def audit(self, tx: str, row: AuditRow) -> None:  # type: ignore[override]
        Log.said.append(f"audit in {tx}")


@pytest.mark.requirement("RES-1", "RES-9")
async def test_async_methods_run_on_the_loop_with_either_kind_of_transaction() -> None:
    Log.said = []
    view = await view_of_functions(AsyncNotes, MixedNotes)
    assert (await run_tool(view, "create_note", '{"text":"x"}')).status is ToolResultStatus.OK
    assert Log.said == ["begin", "create in tx", "audit note create in tx", "commit"]
    Log.said = []
    assert (await run_tool(view, "create_note", '{"text":"bad"}')).status is ToolResultStatus.ERROR
    assert Log.said == ["begin", "create in tx", "rollback"]
    Log.said = []
    assert (await run_tool(view, "create_plain_note", '{"text":"x"}')).status is ToolResultStatus.OK
    assert Log.said == ["begin", "create in plain", "audit in plain", "commit"]


@resource
class Counter:
    """No transaction at all."""

    def list(self) -> list[int]:
        """All numbers."""
        return [1, 2]


@pytest.mark.requirement("RES-1")
async def test_a_resource_needs_no_transaction() -> None:
    view = await view_of_functions(Counter)
    assert json.loads(words_of(await run_tool(view, "list_counter"))) == [1, 2]


@resource
class NoArguments:
    def __init__(self, database: Database) -> None:
        self.database = database


@resource
class Nothing:
    def fetch(self) -> str:
        return ""


@resource(name="Big Name")
class BadName(Counter):
    pass


@resource
class NoTransaction:
    def get(self, isbn: str, tx: Tx[str]) -> str:
        return isbn + tx


@resource
class AsyncAuditOfPlain:
    async def audit(self, tx: None, row: AuditRow) -> None:
        """Cannot be awaited in a thread."""

    def create(self, isbn: str) -> str:
        return isbn


@pytest.mark.requirement("RES-7")
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (NoArguments, "cannot be made without arguments"),
        (Nothing, "has none of get, search, list, create, update, delete, and no method with @tool"),
        (BadName, "a name is lower-case letters"),
        (NoTransaction, "takes a transaction, but the resource has no method transaction"),
        (AsyncAuditOfPlain, "is not async, so audit must not be async either"),
    ],
)
def test_a_class_that_cannot_be_a_resource_is_refused_in_one_sentence(kind: type, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        PythonToolset([kind])


@resource
class AsyncTransactionOfPlain(AsyncNotes):
    """Its transaction is only known for async when it is opened."""

    audit = None  # type: ignore[assignment]

    def create(self, text: str) -> str:  # type: ignore[override]
        return text


@pytest.mark.requirement("RES-7")
async def test_a_transaction_that_a_plain_method_cannot_open_fails_the_call() -> None:
    view = await view_of_functions(AsyncTransactionOfPlain)
    result = await run_tool(view, "create_async_transaction_of_plain", '{"text":"x"}')
    assert result.status is ToolResultStatus.ERROR
    assert "no context manager" in words_of(result)


@pytest.mark.requirement("RES-8")
def test_resources_come_from_references_as_functions_do() -> None:
    assert [function.__name__ for function in load_functions(["tools.test_resources:Counter"])] == ["list"]
    with pytest.raises(ConfigError, match="no function, no resource"):
        load_functions(["tools.test_resources:ADDRESS"])


ADDRESS = 7
