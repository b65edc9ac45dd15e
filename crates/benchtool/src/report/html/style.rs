//! The style sheet of the page.

use crate::report::plots::colors;

const SHEET: &str = "
:root{--ink:#1f2328;--muted:#59636e;--line:#d9dee3;--back:#fff;--card:#f6f8fa;--win:#1a7f37;
--loss:#cf222e;--warn:#9a6700;--link:#0969da;--bad-back:#ffebe9}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--muted:#9da7b3;--line:#333a42;
--back:#0d1117;--card:#161b22;--win:#3fb950;--loss:#ff6b6b;--warn:#d29922;--link:#4493f8;
--bad-back:#3c1618}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--back);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
main{max-width:1460px;margin:0 auto;padding:16px 20px 64px}
h1{font-size:1.6rem;line-height:1.25;margin:.4em 0}
h2{font-size:1.3rem;margin:2em 0 .5em;padding-bottom:.2em;border-bottom:1px solid var(--line)}
h3{font-size:1.08rem;margin:1.8em 0 .2em}
p{max-width:75ch;margin:.4em 0}
a{color:var(--link)}
code{font:.9em ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.muted,.number,figcaption{color:var(--muted)}
.number{font-weight:400;font-variant-numeric:tabular-nums}
.score{display:flex;flex-wrap:wrap;gap:10px;margin:14px 0}
.score div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:8px 16px;
min-width:96px}
.score b{display:block;font-size:1.5rem;line-height:1.2}
.score .win b,.win{color:var(--win)}.score .loss b,.loss{color:var(--loss)}
.loss,.win,.bad{font-weight:600}.bad,.warn{color:var(--loss)}
.notice{border-left:4px solid var(--warn);background:var(--card);padding:8px 14px;margin:12px 0;
max-width:90ch}
.notice.bad-rows{border-color:var(--loss);background:var(--bad-back)}
.notice ul{margin:.3em 0;padding-left:1.2em}
.toc{line-height:2;margin:.6em 0}
.toc a{display:inline-block;margin-right:.9em;white-space:nowrap}
.plots{column-gap:24px}
.plots section{display:flow-root}.plots .one,figure{break-inside:avoid}
.plots .two,.plots .many{column-span:all}
@media(min-width:960px){.plots{columns:2}.panels{columns:2}}
@media(min-width:1380px){.plots,.many .panels{columns:3}}
.panels{column-gap:14px;margin:10px 0}.one .panels{columns:auto}
figure{margin:0 0 14px;background:var(--card);border:1px solid var(--line);border-radius:8px;
padding:10px}
figcaption{font-size:.9rem;margin-bottom:6px}
svg{display:block;width:100%;max-width:620px;height:auto;margin:0 auto}
summary{cursor:pointer;color:var(--link);padding:4px 0}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:8px;margin:10px 0;
max-width:max-content;background:linear-gradient(to left,var(--back) 40%,transparent) right/36px
100% no-repeat local,linear-gradient(to left,var(--muted),transparent) right/12px 100%
no-repeat scroll}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:5px 11px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap;
vertical-align:top}
tr:last-child td,tr:last-child th{border-bottom:0}
thead th{background:var(--card);text-align:right}
th:first-child{text-align:left;position:sticky;left:0;background:var(--card);font-weight:600}
td.text,th.text{text-align:left}
td.wrap{white-space:normal;min-width:150px;max-width:300px;text-align:left}
tr.lost td,tr.lost th{background:var(--bad-back)}
tr.invalid td,tr.invalid th{background:var(--bad-back);color:var(--loss)}
td small{display:block;font-size:.82em;line-height:1.2}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:2px 16px;max-width:90ch}
dt{color:var(--muted)}dd{margin:0;overflow-wrap:anywhere}
@media(max-width:900px){.scroll:has(.cards){max-width:none;overflow-x:visible}
.cards,.cards tbody{display:block}.cards thead{display:none}
.cards tr{display:grid;grid-template-columns:repeat(14,minmax(0,1fr));gap:3px 8px;padding:7px 10px;
border-bottom:1px solid var(--line)}
.cards tr:last-child{border:0}
.cards tr.lost,.cards tr.invalid{background:var(--bad-back)}
.cards th,.cards td{border:0;padding:0;text-align:left;white-space:normal;overflow-wrap:break-word}
.cards tr th:first-child,.cards tr td{background:none}
.cards th:first-child{grid-column:span 10;position:static;max-width:none}
.cards td{grid-column:span 2}.cards td.wrap{grid-column:1/-1;min-width:0;max-width:none}
.cards td[data-of]::before{content:attr(data-of);display:block;color:var(--muted);font-size:.82em;
font-weight:400}
.cards td.wrap::before{display:inline;margin-right:.5em}
.cards td small{display:inline}}
@media(max-width:600px){main{padding:8px 10px 48px}body{font-size:15px}
figure{padding:6px 4px}th:first-child{min-width:30vw;max-width:44vw;white-space:normal;
overflow-wrap:break-word}
.cards tr{grid-template-columns:repeat(6,minmax(0,1fr));padding:7px 8px}
.cards th:first-child{grid-column:span 4}.cards td{grid-column:span 1}
.cards td[data-of]{grid-column:span 2}.cards td.wrap{grid-column:1/-1}
.scores th,.scores td{padding:5px}.scores th:first-child{min-width:0}
dl{grid-template-columns:1fr}dd{margin-bottom:6px}
.score div{padding:6px 12px;min-width:76px}.toc a{white-space:normal}}
@media print{details>div{display:block}figure{break-inside:avoid}}
";

/// The whole sheet, the dark colours of the plots included.
pub(crate) fn sheet() -> String {
    let dark = colors::dark_rules("svg ");
    format!("{SHEET}@media(prefers-color-scheme:dark){{{dark}}}\n")
}
