'use strict';
// The operators' part of the page: keys by state, and what is to become of those whose outcome nobody knows.
(() => {
  const ways = {
    completed_elsewhere: ['Completed elsewhere', 'It ran, or was done by hand. A repeat gets a result that says so, and does not run.', ['outcome_unknown', 'not_replayable']],
    released: ['Release', 'It did not run, or was taken back. A repeat runs.', ['outcome_unknown']],
    refused: ['Refuse until ttl', 'Nobody knows yet. A repeat goes on being refused, for a whole ttl from now.', ['outcome_unknown']],
  };
  const columns = ['operation', 'state', 'tool', 'attempt', 'claimed', 'settled', 'cause', 'status', 'resolved', ''];
  const most = 200; // keys that the table shows at a time

  const el = (name, props = {}, ...children) => {
    const e = Object.assign(document.createElement(name), props);
    e.append(...children);
    return e;
  };
  const ago = ms => ms === undefined ? '' : ms < 1000 ? 'now' : ms < 120e3 ? Math.round(ms / 1000) + ' s ago' : ms < 7200e3 ? Math.round(ms / 60e3) + ' min ago' : Math.round(ms / 3600e3) + ' h ago';

  const rows = el('tbody', {id: 'keyrows'});
  const said = el('p', {id: 'keysaid'});
  said.setAttribute('role', 'status');
  const state = el('select', {id: 'keystate'}, ...[['outcome_unknown', 'whose outcome nobody knows'], ['not_replayable', 'whose answer was not kept'], ['in_flight', 'in flight'], ['completed', 'completed'], ['', 'all']]
    .map(([value, text]) => el('option', {value}, text)));
  const heading = el('h2', {id: 'keys', tabIndex: -1}, 'Keys');
  const scroll = el('div', {className: 'scroll', tabIndex: 0}, el('table', {}, el('thead', {}, el('tr', {}, ...columns.map(c => el('th', {scope: 'col'}, c || el('span', {className: 'unseen'}, 'act'))))), rows));
  scroll.setAttribute('role', 'region');
  scroll.setAttribute('aria-labelledby', 'keys');
  state.setAttribute('aria-keyshortcuts', 'k');
  const section = el('section', {id: 'keysection'}, heading, el('div', {className: 'tools'}, el('label', {}, 'Keys ', state)), said, scroll);
  section.setAttribute('aria-labelledby', 'keys');
  document.querySelector('main').prepend(section);

  const reason = el('input', {id: 'reason', maxLength: 200, required: true, autocomplete: 'off'});
  const choices = el('div', {id: 'choices'});
  const wrong = el('p', {id: 'wrong', className: 'bad'});
  wrong.setAttribute('role', 'alert');
  const about = el('p', {id: 'about'});
  const form = el('form', {method: 'dialog'}, el('h2', {id: 'asktitle'}, 'What became of this call?'), about, choices, el('label', {}, 'Why, for the log (no secrets) ', reason), wrong,
    el('div', {className: 'tools'}, el('button', {type: 'submit', id: 'act'}, 'Resolve'), el('button', {type: 'button', id: 'cancel'}, 'Cancel')));
  const dialog = el('dialog', {id: 'ask'}, form);
  dialog.setAttribute('aria-labelledby', 'asktitle');
  document.body.append(dialog);

  let asked, busy = false;
  const takes = key => Object.keys(ways).filter(way => ways[way][2].includes(key.state));

  function row(key) {
    const values = [key.operation, key.state, key.tool, key.attempt, ago(key.age_ms), ago(key.settled_ms_ago), key.cause, key.status, key.resolved];
    const tr = el('tr', {}, ...values.map((v, i) => cell(columns[i], v, columns[i] === 'operation' ? 'code' : '')));
    const act = el('td');
    if (takes(key).length) {
      const button = el('button', {type: 'button'}, 'Resolve …');
      button.setAttribute('aria-label', 'Resolve the key ' + key.operation);
      button.dataset.operation = key.operation;
      button.addEventListener('click', () => open(key));
      act.append(button);
    }
    tr.append(act);
    return tr;
  }

  // all reads page after page, since one may be empty and have another behind it.
  async function all() {
    const keys = [];
    for (let at = ''; keys.length < most;) {
      const q = new URLSearchParams({limit: 100});
      if (state.value) q.set('state', state.value);
      if (at) q.set('at', at);
      const response = await fetch('/filter/keys?' + q);
      const got = await response.json();
      if (!response.ok) throw new Error(got.error || response.status);
      keys.push(...got.keys);
      if (!got.next) return {keys, more: false};
      at = got.next;
    }
    return {keys, more: true};
  }

  async function list() {
    if (busy) return;
    busy = true;
    try {
      const {keys, more} = await all();
      const focus = document.activeElement?.dataset?.operation;
      rows.replaceChildren(...keys.slice(0, most).map(row));
      if (focus) rows.querySelector(`button[data-operation="${CSS.escape(focus)}"]`)?.focus();
      summary.textContent = keys.length === 0 ? 'None.' : more ? `The first ${most}: narrow them down by state, or use callonce keys list.` : keys.length === 1 ? 'One key.' : keys.length + ' keys.';
    } catch (e) { summary.textContent = 'Keys cannot be listed: ' + e.message; }
    busy = false;
  }
  const summary = el('span', {id: 'keysum'});
  section.querySelector('.tools').append(summary);

  function open(key) {
    asked = key;
    about.textContent = [key.operation, key.tool, key.state, key.cause, key.status].filter(v => v !== undefined && v !== '').join(' · ');
    choices.replaceChildren(...takes(key).map(way => {
      const input = el('input', {type: 'radio', name: 'to', value: way, required: true});
      return el('label', {className: 'choice'}, input, el('span', {}, el('strong', {}, ways[way][0]), ' ', ways[way][1]));
    }));
    reason.value = '';
    wrong.textContent = '';
    dialog.showModal();
    choices.querySelector('input').focus();
  }

  form.addEventListener('submit', async e => {
    e.preventDefault();
    const to = form.elements.to.value;
    const [path, at] = asked.path.split('?');
    const q = new URLSearchParams(at);
    q.set('to', to);
    q.set('reason', reason.value);
    try {
      const response = await fetch('/filter/keys/' + path.slice(path.lastIndexOf('/') + 1) + '?' + q, {method: 'POST'});
      const got = await response.json().catch(() => ({}));
      if (!response.ok) {
        wrong.textContent = response.status === 409 ? 'It does not take that any more: ' + (got.is?.state || 'somebody was quicker') + '.' : 'Not done: ' + (got.error || response.status);
        return;
      }
      said.textContent = `${asked.operation}: ${ways[to][0].toLowerCase()}. ${ways[to][1]}`;
      dialog.close();
    } catch (e) { wrong.textContent = 'Not done: ' + e.message; }
    await list();
    heading.focus();
  });
  form.querySelector('#cancel').addEventListener('click', () => dialog.close());
  dialog.addEventListener('close', () => { if (document.activeElement === document.body) heading.focus(); });
  state.addEventListener('change', list);
  document.addEventListener('keydown', e => {
    if (e.key === 'k' && !dialog.open && !e.target.matches('input, select') && !e.ctrlKey && !e.metaKey && !e.altKey) state.focus();
  });
  list();
  setInterval(() => { if (!paused && !dialog.open) list(); }, 2000);
})();
