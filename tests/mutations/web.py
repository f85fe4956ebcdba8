"""Mutations of the web view: each rule of its access taken out once, and what makes its pages safe and bounded."""
# fmt: off

from __future__ import annotations

from tests.mutations.table import rows

ACCESS = (
    "integration/test_web_access.py"
    "::test_only_who_opened_a_fresh_link_is_let_in_and_only_as_a_browser_of_these_pages_would_ask"
)
PAGES = (
    "integration/test_web_pages.py"
    "::test_everything_is_shown_what_is_hostile_is_text_and_a_person_settles_what_needs_them"
)
STREAM = (
    "integration/test_web_pages.py"
    "::test_changes_and_logs_come_as_a_stream_whose_number_is_bounded_and_a_huge_log_is_served_as_its_tail"
)
OF_SESSIONS = "integration/test_web_access.py::test_"
KEYS = "integration/test_web_browser.py::test_what_needs_a_person_is_settled_with_the_keys_of_the_terminal_screen"
LIVE = "integration/test_web_browser.py::test_a_person_sees_what_needs_them_as_it_happens_and_settles_it_in_the_page"
BROWSER = "daemon/corral/server/http/browser"

MUTATIONS = (
    *rows(
        f"{BROWSER}/entry.py",
        ("the web view answers to any host", 'if headers.get(b"host") != own:', "if False:", ACCESS, "X1"),
        ("the web view takes requests of any origin", 'if headers.get(b"origin", f"http://{own}") != f"http://{own}":', "if False:", ACCESS, "X1"),
        ("the web view takes requests of other ports", 'if headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin"):', "if False:", ACCESS, "X1"),
        ("a form of any type is taken", 'media != "application/x-www-form-urlencoded" or b"origin" not in headers', 'b"origin" not in headers', ACCESS, "X1"),
        ("a form without an origin is taken", ' or b"origin" not in headers', "", ACCESS, "X1"),
        ("the web view knows other methods", 'scope["method"] not in ("GET", "HEAD", "POST")', "False", ACCESS, "X1"),
        ("another user gets the pages with a cookie", 'if await self._services.work(lambda: is_stranger(scope["client"], scope["server"])):', "if False:",
         OF_SESSIONS + "another_user_is_refused_even_with_the_cookie", "X2"),
        ("a session that has ended is let in", "if secret is None or not is_open:", "if secret is None:", ACCESS, "X1"),
        ("a form needs no token", 'if not hmac.compare_digest(visit.form.get("token", "").encode(), visit.token.encode()):', "if False:", ACCESS, "X1"),
        ("a form may be of any size", "if len(body) > MOST_FORM_BYTES:", "if False:", ACCESS, "X1"),
        ("scripts read the cookie", "; HttpOnly;", ";", ACCESS, "X1"),
        ("other sites send the cookie", "; SameSite=Strict", "", ACCESS, "X1"),
        ("pages may be framed", "\"frame-ancestors 'none'; form-action", '"form-action', ACCESS, "X1"),
        ("pages are kept by the browser", '    (b"cache-control", b"no-store"),\n', "", ACCESS, "X1"),
        ("types are guessed", '    (b"x-content-type-options", b"nosniff"),\n', "", ACCESS, "X1"),
    ),
    *rows(
        f"{BROWSER}/peers.py",
        ("who is not found is the person", "return uid is None or (uid", "return uid is not None and (uid",
         OF_SESSIONS + "who_has_hung_up_and_who_is_not_found_is_another_user", "X2"),
        ("the person is not found by IPv6", 'TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))', 'TABLES = (Path("/proc/net/tcp"),)',
         OF_SESSIONS + "who_has_hung_up_and_who_is_not_found_is_another_user", "X2"),
        ("who has hung up is root", " and columns[_INODE] != _CLOSED", "",
         OF_SESSIONS + "who_has_hung_up_and_who_is_not_found_is_another_user", "X2"),
    ),
    *rows(
        f"{BROWSER}/sessions.py",
        ("a link opens twice", "self._links.pop(_digest(link), None)", "self._links.get(_digest(link))", OF_SESSIONS + "a_link_opens_once_and_within_a_minute", ""),
        ("a link opens for ever", "if expires_at is None or expires_at <= now:", "if expires_at is None:", OF_SESSIONS + "a_link_opens_once_and_within_a_minute", ""),
        ("a browser's session does not end", "return expires_at is not None and expires_at > now", "return expires_at is not None",
         OF_SESSIONS + "a_browser_that_was_left_open_for_a_week_is_not_let_in", ""),
        ("there may be any number of sessions", "while len(self._sessions) > MOST_SESSIONS:", "while False:", OF_SESSIONS + "links_and_sessions_are_bounded_and_the_oldest_go", ""),
        ("there may be any number of links", "while len(self._links) > MOST_LINKS:", "while False:", OF_SESSIONS + "links_and_sessions_are_bounded_and_the_oldest_go", ""),
        ("secrets of browsers are stored", 'return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()', "return secret", ACCESS, "X1"),
        ("sessions end with the daemon", "            self.port = int(kept[\"port\"])\n", '            self.port, self._sessions = int(kept["port"]), {}\n', ACCESS, "X1"),
    ),
    *rows(
        f"{BROWSER}/actions.py",
        ("an action that ends work is not asked for", 'if action.asks and visit.form.get("confirmed") != "yes":', "if False:", ACCESS, "X1"),
        ("an action leads to another site", ' and not to.startswith("//")', "", ACCESS, "X1"),
    ),
    *rows(
        "daemon/corral/server/http/routes/web.py",
        ("a worker gets into the web view", "if who := await services.work(lambda: own_work(services.project, request)):", 'if who := "":',
         OF_SESSIONS + "an_agent_gets_no_link", "X4"),
    ),
    *rows(
        "daemon/corral/server/http/own_work.py",
        ("a worker acts as a person by a process that has ended", "if pid is not None and not psutil.pid_exists(pid):", "if False:",
         "faults/test_poison.py::test_a_worker_that_stops_its_own_daemon_is_refused_by_every_way_there_is", "X4"),
    ),
    *rows(
        f"{BROWSER}/rendering.py",
        ("text is not escaped in pages", "autoescape=True", "autoescape=False", PAGES, "X11"),
        ("hidden characters are hidden in pages", "finalize=shown", "finalize=lambda value: value", PAGES, "X11"),
    ),
    *rows(
        f"{BROWSER}/live.py",
        ("any number of pages is live", "if self._open >= MOST_STREAMS:", "if False:", STREAM, "X17"),
        ("the stream carries rows", "json.dumps({name: event[name] for name in _NAMED})", "json.dumps(event)", STREAM, "X17"),
        ("a page that has left stays counted", "            self._open -= 1\n", "", STREAM, "X17"),
    ),
    *rows(
        "daemon/corral/web/static/keys.mjs",
        ("a key acts while somebody types", "if (isTyping(event) || help.open) return;", "if (help.open) return;", KEYS, ""),
        ("a key acts behind the list of keys", " || help.open) return;", ") return;", KEYS, ""),
        ("keys that are off act", "} else if (!isOff() && pressed(event)) {", "} else if (pressed(event)) {", KEYS, ""),
        ("a key takes the browser's own", "event.ctrlKey || ", "", KEYS, ""),
        ("a key acts on a row that is not the current one", "if (found && !isOfRow) return found;", "if (found) return found;", KEYS, ""),
    ),
    *rows(
        "daemon/corral/web/static/live.mjs",
        ("the focus goes to another row", 'return name === undefined ? null', "return true ? null", KEYS, ""),
    ),
    *rows(
        "daemon/corral/web/static/live.mjs",
        ("nothing is live in the page", 'querySelectorAll("[data-live]")) {', 'querySelectorAll("[data-none]")) {',
         LIVE, ""),
    ),
    *rows(
        f"{BROWSER}/pages/overview.py",
        ("the page offers a retry that conflicts again", "if need_name(need) == CONFLICT:", "if False:", KEYS, ""),
    ),
    *rows(
        f"{BROWSER}/pages/tasks.py",
        ("a page holds a whole log", "start = max(begin, size - TAIL)", "start = 0", STREAM, "X17"),
        ("open tasks stand in another order than they start in", 'ORDERS = {"open": TaskSort.PRIORITY}', "ORDERS: dict[str, TaskSort] = {}",
         "integration/test_web_pages.py::test_what_is_open_stands_in_the_order_in_which_it_starts_over_all_pages", "FR-MONITOR-002"),
    ),
)
