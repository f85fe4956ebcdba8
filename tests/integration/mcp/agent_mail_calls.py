"""What clients of Agent Mail rely on: the parameters of its tools, and the fields of their answers.

Written by hand from its tests and signatures, as of April 2026; :mod:`test_agent_mail` plays the steps against the daemon.

``$name`` is something that an earlier answer told: ``keep`` says what, as ``{name: path}``. A path is ``granted.0.id``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

PARAMETERS = {
    "health_check": "format",
    "ensure_project": "human_key identity_mode format",
    "register_agent": "project_key program model name task_description attachments_policy registration_token format",
    "create_agent_identity": "project_key program model name_hint task_description attachments_policy format",
    "whois": "project_key agent_name registration_token include_recent_commits commit_limit format",
    "send_message": "project_key sender_name to subject body_md cc bcc attachment_paths convert_images importance ack_required "
    "thread_id broadcast topic auto_contact_if_blocked sender_token format",
    "reply_message": "project_key message_id sender_name body_md to cc bcc subject_prefix sender_token format",
    "request_contact": "project_key from_agent to_agent to_project reason ttl_seconds registration_token register_if_missing "
    "program model task_description format",
    "respond_contact": "project_key to_agent from_agent accept ttl_seconds from_project registration_token format",
    "list_contacts": "project_key agent_name registration_token format",
    "set_contact_policy": "project_key agent_name policy registration_token format",
    "fetch_inbox": "project_key agent_name limit urgent_only include_bodies since_ts topic registration_token format",
    "mark_message_read": "project_key agent_name message_id registration_token format",
    "acknowledge_message": "project_key agent_name message_id registration_token format",
    "macro_start_session": "human_key program model task_description agent_name registration_token file_reservation_paths "
    "file_reservation_reason file_reservation_ttl_seconds inbox_limit format",
    "macro_prepare_thread": "project_key thread_id program model agent_name registration_token task_description "
    "register_if_missing include_examples inbox_limit include_inbox_bodies llm_mode llm_model format",
    "macro_file_reservation_cycle": "project_key agent_name paths ttl_seconds exclusive reason auto_release registration_token "
    "format",
    "macro_contact_handshake": "project_key requester target reason ttl_seconds auto_accept welcome_subject welcome_body "
    "to_project requester_registration_token target_registration_token agent_name to_agent register_if_missing program model "
    "task_description thread_id format",
    "search_messages": "project_key query limit agent_name registration_token format",
    "file_reservation_paths": "project_key agent_name paths ttl_seconds exclusive reason registration_token format",
    "release_file_reservations": "project_key agent_name paths file_reservation_ids registration_token format",
    "force_release_file_reservation": "project_key agent_name file_reservation_id notify_previous note registration_token format",
    "renew_file_reservations": "project_key agent_name extend_seconds paths file_reservation_ids registration_token format",
}  # fmt: skip
"""Every parameter of the tools that both have."""

NOT_HERE = (
    "deregister_agent retire_agent unretire_agent hard_delete_agent archive_project unarchive_project hard_delete_project "
    "list_window_identities rename_window expire_window purge_old_messages fetch_topic summarize_thread summarize_recent "
    "fetch_summary install_precommit_guard uninstall_precommit_guard acquire_build_slot renew_build_slot release_build_slot "
    "ensure_product products_link search_messages_product fetch_inbox_product summarize_thread_product"
)
"""Its other tools."""

_PROJECT = "id slug human_key created_at"
_AGENT = "id name program model task_description inception_ts last_active_ts project_id attachments_policy registration_token"
_MESSAGE = "id project_id sender_id thread_id topic subject importance ack_required created_ts attachments from"
_SENT = f"{_MESSAGE} body_md project project_slug to cc bcc created"
_CONTACT = "from from_project to to_project status expires_ts"
_RESERVATION = "id path_pattern exclusive reason expires_ts"
_HOLDER = "agent path_pattern exclusive expires_ts"


class Step(NamedTuple):
    """One call, or one resource that is read.

    Attributes:
        tool: Or the resource's address.
        fields: By the path of an object in the answer, what it has at least.
        keep: What later steps need of it.
    """

    tool: str
    arguments: dict[str, Any]
    fields: dict[str, str]
    keep: Mapping[str, str] = MappingProxyType({})


_PLAIN: dict[str, Any] = {"project_key": "$root", "format": "json"}
_RUNS = {"program": "opencode", "model": "m"}
_AS_ANN: dict[str, Any] = {**_PLAIN, "agent_name": "CallAnn", "registration_token": "$ann"}
_AS_BEN: dict[str, Any] = {**_PLAIN, "agent_name": "CallBen", "registration_token": "$ben"}

STEPS = (
    Step("health_check", {"format": "json"}, {"": "status environment http_host http_port database_url"}),
    Step("ensure_project", {"human_key": "$root", "identity_mode": "dir", "format": "json"}, {"": _PROJECT}, {"$slug": "slug"}),
    Step(
        "register_agent",
        {**_PLAIN, **_RUNS, "name": "CallAnn", "task_description": "Plan", "attachments_policy": "auto",
         "registration_token": None},
        {"": _AGENT}, {"$ann": "registration_token"},
    ),
    Step(
        "create_agent_identity",
        {**_PLAIN, **_RUNS, "name_hint": "CallBen", "task_description": "Build", "attachments_policy": "inline"},
        {"": _AGENT}, {"$ben": "registration_token"},
    ),
    Step(
        "whois", {**_AS_BEN, "include_recent_commits": True, "commit_limit": 2}, {"": f"{_AGENT} recent_commits"}
    ),
    Step(
        "send_message",
        {**_PLAIN, "sender_name": "CallAnn", "to": ["CallBen"], "subject": "Quokka plan", "body_md": "Later", "cc": ["CallAnn"],
         "bcc": None, "attachment_paths": None, "convert_images": False, "importance": "high", "ack_required": True,
         "thread_id": "call-1", "broadcast": False, "topic": None, "auto_contact_if_blocked": True, "sender_token": "$ann"},
        {"": "deliveries count verified_sender", "deliveries.0": "project payload", "deliveries.0.payload": _SENT},
        {"$message": "deliveries.0.payload.id"},
    ),
    Step(
        "reply_message",
        {**_PLAIN, "message_id": "$message", "sender_name": "CallBen", "body_md": "Yes", "to": ["CallAnn"], "cc": None,
         "bcc": None, "subject_prefix": "Re:", "sender_token": "$ben"},
        {"": f"{_SENT} reply_to deliveries count", "deliveries.0.payload": _SENT},
    ),
    Step(
        "fetch_inbox",
        {**_AS_BEN, "limit": 5, "urgent_only": False, "include_bodies": True, "since_ts": "2020-01-01T00:00:00Z", "topic": None},
        {"0": f"{_MESSAGE} kind body_md"},
    ),
    Step("mark_message_read", {**_AS_BEN, "message_id": "$message"}, {"": "message_id read read_at"}),
    Step(
        "acknowledge_message", {**_AS_BEN, "message_id": "$message"}, {"": "message_id acknowledged acknowledged_at read_at"}
    ),
    Step(
        "search_messages", {**_AS_ANN, "query": "quokka", "limit": 5},
        {"0": "id subject importance ack_required created_ts thread_id from"},
    ),
    Step(
        "request_contact",
        {**_PLAIN, **_RUNS, "from_agent": "CallAnn", "to_agent": "CallBen", "to_project": "$root", "reason": "r",
         "ttl_seconds": 60, "registration_token": "$ann", "register_if_missing": False, "task_description": ""},
        {"": _CONTACT},
    ),
    Step(
        "respond_contact",
        {**_PLAIN, "to_agent": "CallBen", "from_agent": "CallAnn", "accept": True, "ttl_seconds": 60, "from_project": "$root",
         "registration_token": "$ben"},
        {"": "from to approved expires_ts updated"},
    ),
    Step(
        "list_contacts", _AS_ANN,
        {"0": "to to_project status is_expired allows_messaging reason updated_ts expires_ts"},
    ),
    Step("set_contact_policy", {**_AS_BEN, "policy": "auto"}, {"": "agent policy"}),
    Step(
        "macro_contact_handshake",
        {**_PLAIN, **_RUNS, "requester": "CallAnn", "target": "CallBen", "reason": "r", "ttl_seconds": 60, "auto_accept": True,
         "welcome_subject": "Hello", "welcome_body": "x", "to_project": "$root", "requester_registration_token": "$ann",
         "target_registration_token": "$ben", "agent_name": "CallAnn", "to_agent": "CallBen", "register_if_missing": False,
         "task_description": "", "thread_id": "call-2"},
        {"": "request response welcome_message", "request": _CONTACT, "response": _CONTACT,
         "welcome_message": "deliveries count", "welcome_message.deliveries.0.payload": _SENT},
    ),
    Step(
        "file_reservation_paths",
        {**_AS_ANN, "paths": ["call/a.py", "call/lib/**"], "ttl_seconds": 3600, "exclusive": True, "reason": "bd-1"},
        {"": "granted conflicts", "granted.0": _RESERVATION}, {"$first": "granted.0.id", "$second": "granted.1.id"},
    ),
    Step(
        "file_reservation_paths",
        {**_AS_BEN, "paths": ["call/a.py"]},
        {"": "granted conflicts", "conflicts.0": "path holders", "conflicts.0.holders.0": _HOLDER},
    ),
    Step(
        "renew_file_reservations",
        {**_AS_ANN, "extend_seconds": 600, "paths": None, "file_reservation_ids": ["$first"]},
        {"": "renewed file_reservations", "file_reservations.0": "id path_pattern old_expires_ts new_expires_ts"},
    ),
    Step(
        "resource://file_reservations/$slug?active_only=true&format=json", {},
        {"0": "id agent path_pattern exclusive reason created_ts expires_ts released_ts"},
    ),
    Step(
        "force_release_file_reservation",
        {**_AS_ANN, "file_reservation_id": "$second", "notify_previous": True, "note": "n"},
        {"": "released released_at reservation",
         "reservation": f"{_RESERVATION} agent created_ts released_ts stale_reasons notified"},
    ),
    Step(
        "force_release_file_reservation",
        {**_AS_ANN, "file_reservation_id": "$second"}, {"": "released released_at already_released"},
    ),
    Step(
        "release_file_reservations",
        {**_AS_ANN, "paths": ["call/a.py"], "file_reservation_ids": None}, {"": "released released_at"},
    ),
    Step(
        "macro_file_reservation_cycle",
        {**_AS_BEN, "paths": ["call/b.py"], "ttl_seconds": 60, "exclusive": True, "reason": "r", "auto_release": True},
        {"": "file_reservations released", "file_reservations": "granted conflicts",
         "file_reservations.granted.0": _RESERVATION, "released": "released released_at"},
    ),
    Step(
        "macro_start_session",
        {**_RUNS, "human_key": "$root", "format": "json", "task_description": "Go on", "agent_name": "CallAnn",
         "registration_token": "$ann", "file_reservation_paths": ["call/c.py"], "file_reservation_reason": "r",
         "file_reservation_ttl_seconds": 60, "inbox_limit": 5},
        {"": "project agent registration_token file_reservations inbox", "project": _PROJECT, "agent": _AGENT,
         "file_reservations": "granted conflicts", "file_reservations.granted.0": _RESERVATION, "inbox.0": f"{_MESSAGE} kind"},
    ),
    Step(
        "macro_prepare_thread",
        {**_AS_BEN, **_RUNS, "thread_id": "call-1", "task_description": "Join", "register_if_missing": True,
         "include_examples": True, "inbox_limit": 5, "include_inbox_bodies": True, "llm_mode": False, "llm_model": None},
        {"": "project agent registration_token thread inbox", "project": _PROJECT, "agent": _AGENT,
         "thread": "thread_id summary examples total_messages", "thread.summary": "participants key_points action_items",
         "inbox.0": f"{_MESSAGE} kind body_md"},
    ),
    Step(
        "resource://inbox/CallBen?project=$root&since_ts=2020-01-01T00:00:00Z&urgent_only=false&include_bodies=true&limit=5"
        "&agent_token=$ben&format=json", {},
        {"": "project agent count messages", "messages.0": f"{_MESSAGE} kind body_md"},
    ),
    Step(
        "resource://mailbox/CallBen?project=$root&limit=5&agent_token=$ben&format=json", {},
        {"": "project agent count messages", "messages.0": f"{_MESSAGE} commit"},
    ),
    Step(
        "resource://outbox/CallAnn?project=$root&limit=5&include_bodies=true&since_ts=2020-01-01T00:00:00Z&agent_token=$ann"
        "&format=json", {},
        {"": "project agent count messages", "messages.0": f"{_MESSAGE} to cc bcc body_md"},
    ),
    Step(
        "resource://message/$message?project=$root&agent=CallBen&agent_token=$ben&format=json", {},
        {"": f"{_MESSAGE} body_md"},
    ),
    Step(
        "resource://thread/call-1?project=$root&agent=CallBen&agent_token=$ben&include_bodies=true&format=json", {},
        {"": "project thread_id messages", "messages.0": f"{_MESSAGE} body_md"},
    ),
    Step(
        "resource://agents/$slug?format=json", {},
        {"": "project agents retired_agents", "project": "slug human_key",
         "agents.0": f"{_AGENT.removesuffix(' registration_token')} unread_count"},
    ),
    Step("resource://project/$slug?format=json", {}, {"": f"{_PROJECT} agents", "agents.0": "id name program model"}),
    Step("resource://config/environment?format=json", {}, {"": "environment database_url http", "http": "host port path"}),
    Step("resource://tooling/directory?format=json", {},
         {"": "generated_at clusters playbooks", "clusters.0": "name purpose tools", "clusters.0.tools.0": "name summary"}),
)  # fmt: skip
