"""Pages for users who are not signed in yet. They need no script."""

from collections.abc import Sequence
from html import escape

from starlette.responses import HTMLResponse, Response

_FRAME = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title} · Towline</title><link rel="stylesheet" href="/pages.css">
<main><p class="brand">Towline</p><h1>{title}</h1>
{body}</main></html>
"""
_STYLE = """:root {
  color-scheme: light dark; font: 14px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  --line: light-dark(#dce1e6, #28313a); --accent: light-dark(#0b5cad, #74b6ff);
}
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 16px;
  background: light-dark(#f5f6f8, #0e1216); color: light-dark(#12171c, #e6eaee); }
main { width: min(380px, 92vw); padding: 28px; border: 1px solid var(--line); border-radius: 14px;
  background: light-dark(#fff, #151a20); box-shadow: 0 10px 30px rgb(0 0 0 / 10%); }
.brand { margin: 0; color: light-dark(#525d67, #9aa7b3); font-weight: 650; }
h1 { margin: 0 0 14px; font-size: 20px; }
a { color: var(--accent); }
label { display: grid; gap: 4px; font-weight: 550; }
input { font: inherit; padding: 8px 10px; width: 100%; color: inherit; background: transparent;
  border: 1px solid light-dark(#8a949d, #5d6a76); border-radius: 6px; }
button { font: inherit; font-weight: 600; padding: 8px 14px; cursor: pointer; border-radius: 6px;
  border: 1px solid var(--accent); background: var(--accent); color: light-dark(#fff, #06121e); }
button[value="no"] { background: transparent; color: inherit; border-color: var(--line); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
"""
_PASSWORD_FORM = """<form method="post" action="/oauth/session">
<input type="hidden" name="back" value="{back}">
<p><label>E-mail <input name="email" type="text" autocomplete="username" required></label></p>
<p><label>Password
<input name="password" type="password" autocomplete="current-password" required></label></p>
<p><button>Sign in</button></p></form>
"""
_SETUP_FORM = """<p>This link works once. Choose how the first administrator signs in.</p>
<form method="post" action="/setup"><input type="hidden" name="token" value="{token}">
<p><label>E-mail <input name="email" type="email" autocomplete="username" required></label></p>
<p><label>Name <input name="name" type="text" autocomplete="name"></label></p>
<p><label>Password (12 characters or more)
<input name="password" type="password" autocomplete="new-password" minlength="12" required>
</label></p>
<p><button>Set up</button></p></form>
"""
_DEVICE_FORM = """<form method="get" action="/device">
<p><label>Code <input name="code" value="" autocomplete="off" required></label></p>
<p><button>Continue</button></p></form>
"""
_DECISION_FORM = """<p><b>{client}</b> at {source} requests access as <b>{user}</b>. Approve only
if the device shows the code <b>{code}</b> and you started this sign-in.</p>
<form method="post" action="/oauth/device/decision">
<input type="hidden" name="code" value="{code}">
<p><button name="approve" value="yes">Approve</button>
<button name="approve" value="no">Deny</button></p></form>
"""


def sign_in(providers: Sequence[tuple[str, str]], back: str, *, local: bool) -> HTMLResponse:
    """Page with the available sign-in methods."""
    links = [
        f'<p><a href="/oauth/login?provider={escape(name)}&amp;back={escape(back)}">'
        f"Sign in with {escape(title or name)}</a></p>\n"
        for name, title in providers
    ]
    form = _PASSWORD_FORM.format(back=escape(back)) if local else ""
    return _page("Sign in", "".join(links) + form)


def setup(token: str) -> HTMLResponse:
    """Page on which the first administrator chooses a password."""
    return _page("Set up", _SETUP_FORM.format(token=escape(token)))


def device_code() -> HTMLResponse:
    """Page on which a user types the code of a device."""
    return _page("Connect a device", _DEVICE_FORM)


def device_decision(client: str, source: str, user: str, code: str) -> HTMLResponse:
    """Page on which a user approves or denies a device."""
    values = {"client": client, "source": source, "user": user, "code": code}
    body = _DECISION_FORM.format(**{name: escape(value) for name, value in values.items()})
    return _page("Connect a device", body)


def style() -> Response:
    """Stylesheet of these pages, which must not contain inline styles."""
    return Response(_STYLE, headers={"cache-control": "max-age=3600"}, media_type="text/css")


def message(title: str, text: str, status: int = 200) -> HTMLResponse:
    """Page with one message."""
    return _page(title, f"<p>{escape(text)}</p>", status)


def _page(title: str, body: str, status: int = 200) -> HTMLResponse:
    content = _FRAME.format(title=escape(title), body=body)
    return HTMLResponse(content, status, {"cache-control": "no-store"})
