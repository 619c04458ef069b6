"""What somebody writes who wants it to run: each says `ran()`, which counts where it is called."""

from itertools import product
from typing import Final

_BREAKS: Final = ("", "\"'>", "</title>", "</textarea>", "--><", "</code></pre></td></table>", "]]>", "`}}-")
"""What ends the place in which a value stands, if it is not escaped there."""
_VECTORS: Final = (
    "<script>ran()</script>",
    "<ScRiPt/x>ran()</sCrIpT>",
    "<script src=data:text/javascript,ran()></script>",
    "<img src=x onerror=ran()>",
    "<img/src='x'/onerror='ran()'//",
    "<svg onload=ran()>",
    "<svg><script>ran()</script></svg>",
    "<svg><animate onbegin=ran() attributeName=x dur=1s>",
    "<math><mtext><mglyph><style><!--</style><img title='--><img src=x onerror=ran()>'>",
    "<body onload=ran()>",
    "<iframe srcdoc='<script>parent.ran()</script>'></iframe>",
    "<iframe src=javascript:parent.ran()></iframe>",
    "<object data=data:text/html,<script>ran()</script>></object>",
    "<embed src=javascript:ran()>",
    "<a href=javascript:ran() id=go autofocus onfocus=ran()>x</a>",
    "<input autofocus onfocus=ran()>",
    "<details open ontoggle=ran()><summary>x</summary></details>",
    "<video><source onerror=ran()></video>",
    "<style>@import 'data:text/css,*{color:red}'</style>",
    "<link rel=stylesheet href=data:text/css,*{display:none}>",
    "<meta http-equiv=refresh content='0;url=javascript:ran()'>",
    "<base href=https://evil.example/>",
    "<form action=javascript:ran()><button>x</button></form>",
    "<button formaction=javascript:ran()>x</button>",
    "<div data-hx-get=/sign-out data-hx-trigger=load>x</div>",
    "<div hx-on:click=ran() hx-trigger=load>x</div>",
    "<template><script>ran()</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=ran()>'>",
)
"""What runs, or draws something in, where it is read as HTML."""
_OTHERS: Final = (
    "{{7*7}}{{''.__class__.__mro__}}{% raw %}",
    "{% for x in ().__class__.__base__.__subclasses__() %}{{x}}{% endfor %}",
    "${7*7}#{7*7}<%= 7*7 %>",
    "javascript:ran()",
    "data:text/html,<script>ran()</script>",
    "[x](javascript:ran())",
    '![x](x"onerror=ran())',
    "\u001b]8;;javascript:ran()\u0007x\u001b]8;;\u0007",
    "\u001b[2J\u001b[31mred",
    "&lt;script&gt;ran()&lt;/script&gt;",
    "&#60;script&#62;ran()&#60;/script&#62;",
    "&amp;lt;script&amp;gt;",
    "%3Cscript%3Eran()%3C/script%3E",
    "\\u003cscript\\u003eran()\\u003c/script\\u003e",
    "\uff1cscript\uff1eran()\uff1c/script\uff1e",
    "<\u200bscript>ran()</script>",
    "\u202e>tpircs/<)(nar>tpircs<",
    "<!--<script>--!><script>ran()</script>",
    "<!DOCTYPE html><html><body>x",
    '" autofocus onfocus=ran() x="',
    "' autofocus onfocus=ran() x='",
    "` onmouseover=ran() `",
    'x" data-hx-get="/sign-out" data-hx-trigger="load',
    "url(javascript:ran())",
    "expression(ran())",
)
PAYLOADS: Final = (*(f"{end}{vector}" for end, vector in product(_BREAKS, _VECTORS)), *_OTHERS)
