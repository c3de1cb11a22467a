'use strict';
const most = 500;
const $ = id => document.getElementById(id);
let after = 0, paused = false, fields = [], own;
const filled = new Set(); // fields that some request has: columns of the others are left out

let tones = {}; // words that have a colour: it only repeats what the word says

function cell(name, value, className) {
  const td = document.createElement('td');
  td.dataset.name = name;
  td.textContent = value === undefined ? '' : String(value);
  td.className = [className || '', tones[value] || ''].join(' ').trim();
  return td;
}

function head(names) {
  if (names.join() === fields.join() && $('head').children.length) return;
  fields = names;
  $('head').replaceChildren(...['time', 'request', 'status', 'ms', 'answered by', ...fields].map(name => {
    const th = document.createElement('th');
    th.scope = 'col';
    th.textContent = name;
    th.dataset.name = name;
    th.hidden = names.includes(name) && !filled.has(name);
    return th;
  }));
}

function show(r) {
  const tr = document.createElement('tr');
  tr.append(cell('time', r.time), cell('request', r.method + ' ' + r.path, 'code'),
    cell('status', r.status, r.status >= 500 ? 'bad' : r.status >= 400 ? 'warn' : ''), cell('ms', r.ms),
    cell('answered by', r.upstream ? 'the server' : 'the filter or proxy'));
  for (const f of fields) {
    if (r.fields[f] !== undefined && !filled.has(f)) {
      filled.add(f);
      for (const e of document.querySelectorAll('th, td')) if (e.dataset.name === f) e.hidden = false;
    }
    const td = cell(f, r.fields[f], /key|hash/.test(f) ? 'code' : '');
    td.hidden = !filled.has(f);
    tr.append(td);
  }
  fit(tr);
  $('rows').prepend(tr);
}

function fit(tr) { tr.hidden = !tr.textContent.toLowerCase().includes($('filter').value.trim().toLowerCase()); }

function gauges(all) {
  $('states').hidden = all.length === 0;
  // A label that is the same everywhere tells nothing apart.
  const values = {};
  for (const g of all) for (const [k, v] of Object.entries(g.labels)) (values[k] ??= new Set()).add(v);
  $('gauges').replaceChildren(...all.map(g => {
    const div = document.createElement('div'), dt = document.createElement('dt'), dd = document.createElement('dd');
    dt.textContent = g.name + Object.entries(g.labels).filter(([k, v]) => v !== '' && (values[k].size > 1 || all.filter(g => k in g.labels).length === 1)).map(([k, v]) => ' ' + k + '=' + v).join('');
    dd.textContent = g.value;
    div.append(dt, dd);
    return div;
  }));
}

async function poll() {
  if (!paused) {
    try {
      const got = await (await fetch('/requests?after=' + after)).json();
      if (got.total < after) { after = 0; $('rows').replaceChildren(); } // it was started again
      tones = got.tones || {};
      if (got.example) $('filter').placeholder = got.example;
      if (got.own && !own) document.head.append(own = Object.assign(document.createElement('script'), {src: '/filter/page.js'}));
      head(got.fields);
      for (const r of got.requests) { show(r); after = Math.max(after, r.n); }
      while ($('rows').children.length > most) $('rows').lastChild.remove();
      gauges(got.gauges);
      $('sum').textContent = got.total === 0 ? 'Waiting for the first request …'
        : got.total + ' requests, ' + got.upstream + ' of them answered by the server, ' + (got.total - got.upstream) + ' in its stead';
    } catch { $('sum').textContent = 'The proxy does not answer: is it still running?'; }
  }
  setTimeout(poll, 1000);
}

function pause() {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', paused);
  $('pause').textContent = paused ? 'Go on' : 'Pause';
}

$('pause').addEventListener('click', pause);
$('filter').addEventListener('input', () => { for (const tr of $('rows').children) fit(tr); });
document.addEventListener('keydown', e => {
  if (document.querySelector('dialog[open]')) return;
  if (e.target.matches('input, select, textarea') || e.ctrlKey || e.metaKey || e.altKey) {
    if (e.key === 'Escape') e.target.blur();
    return;
  }
  if (e.key === '/') { e.preventDefault(); $('filter').focus(); }
  if (e.key === 'p') pause();
});
poll();
