'use strict';
(() => {
  // Everything that comes from a pool goes into the page by textContent: it is text, whatever it says.
  const $ = id => document.getElementById(id);
  const make = (tag, name, text) => {
    const e = document.createElement(tag);
    if (name) e.className = name;
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const RANGES = [[300, '5 min'], [900, '15 min'], [3600, '1 h']];
  const RANGE_MIN = 60, SPARKS = 120, TXGS_SHOWN = 8, EACH_MS = 1000, PATIENCE_MS = 5000, REST_MAX_MS = 15000;
  const COLUMNS = ['at', 'read', 'written', 'reads', 'writes', 'read_p50', 'read_p99', 'write_p50', 'write_p99', 'dirty'];
  const known = new Map();
  let began = null, keeps = 3600, chosen = null, wanted = 300, range = 300, hover = null, now = 0, failed = 0, failedAt = null;

  // Numbers.
  const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  const short = n => n >= 100 || n === Math.floor(n) ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2);
  const bytes = n => {
    let unit = 0;
    while (n >= 1024 && unit + 1 < UNITS.length) { n /= 1024; unit += 1; }
    return short(n) + ' ' + UNITS[unit];
  };
  const rate = n => bytes(n) + '/s';
  const count = n => n >= 1e6 ? short(n / 1e6) + ' M' : n >= 1e4 ? short(n / 1e3) + ' k' : n < 10 && n % 1 ? n.toFixed(1) : n.toFixed(0);
  const span = s => {
    if (s === null || s === undefined) return '–';
    if (s < 1e-6) return Math.round(s * 1e9) + ' ns';
    if (s < 1e-3) return short(s * 1e6) + ' µs';
    if (s < 1) return short(s * 1e3) + ' ms';
    if (s < 120) return short(s) + ' s';
    if (s < 7200) return Math.round(s / 60) + ' min';
    return s < 172800 ? (s / 3600).toFixed(1) + ' h' : Math.round(s / 86400) + ' days';
  };
  const clock = (s, full) => new Date(s * 1000).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hour12: false, ...(full ? { second: '2-digit' } : {}) });
  const kind = state => state === 'ONLINE' || state === 'AVAIL' || state === 'INUSE' ? 'ok' : state === 'DEGRADED' || state === 'OFFLINE' ? 'warn' : 'bad';

  // What is remembered here: as much as the server keeps.
  function merge(pool) {
    let own = known.get(pool.guid);
    if (!own) {
      own = { points: {}, txgs: [], sparks: new Map() };
      for (const c of COLUMNS) own.points[c] = [];
      known.set(pool.guid, own);
    }
    own.pool = pool;
    const at = own.points.at;
    pool.points.at.forEach((t, i) => {
      if (at.length && t <= at[at.length - 1]) return;
      for (const c of COLUMNS) own.points[c].push(pool.points[c][i]);
    });
    const last = own.txgs.length ? own.txgs[own.txgs.length - 1].txg : 0;
    for (const t of pool.txgs) if (t.txg > last) own.txgs.push(t);
    const oldest = (at[at.length - 1] || 0) - keeps;
    const drop = at.findIndex(t => t >= oldest);
    if (drop > 0) for (const c of COLUMNS) own.points[c].splice(0, drop);
    const dropped = own.txgs.findIndex(t => t.opened_at >= oldest);
    if (dropped > 0) own.txgs.splice(0, dropped);
    const seen = new Set();
    for (const v of pool.vdevs) {
      seen.add(v.guid);
      const spark = own.sparks.get(v.guid) || [];
      spark.push(v.rates[2] + v.rates[3]);
      if (spark.length > SPARKS) spark.shift();
      own.sparks.set(v.guid, spark);
    }
    for (const guid of own.sparks.keys()) if (!seen.has(guid)) own.sparks.delete(guid);
  }

  function after() {
    let least = Infinity;
    for (const own of known.values()) if (own.points.at.length) least = Math.min(least, own.points.at[own.points.at.length - 1]);
    return least === Infinity ? 0 : least;
  }

  async function poll() {
    let rest = EACH_MS;
    try {
      const answer = await fetch('data?after=' + after(), { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS) });
      if (!answer.ok) throw new Error('status ' + answer.status);
      const data = await answer.json();
      if (began !== null && data.began !== began) { known.clear(); began = null; rest = 0; } else {
        began = data.began;
        keeps = data.keeps;
        const there = new Set(data.pools.map(p => p.guid));
        for (const guid of [...known.keys()]) if (!there.has(guid)) known.delete(guid);
        data.pools.forEach(merge);
        failed = 0;
        show();
      }
    } catch (e) {
      if (failed === 0) failedAt = new Date();
      failed += 1;
      rest = Math.min(REST_MAX_MS, EACH_MS * 2 ** Math.min(failed, 5));
      notice('zinc does not answer since ' + failedAt.toLocaleTimeString() + '; these are the last figures');
      document.title = '✕ zinc';
    }
    // A page that is not seen asks for nothing; what it missed comes when it is looked at again.
    if (document.hidden) document.addEventListener('visibilitychange', poll, { once: true });
    else setTimeout(poll, rest);
  }

  function notice(text) {
    $('notice').hidden = !text;
    if (text) $('notice').textContent = text;
  }

  // Charts.
  const color = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
  function canvas(id) {
    const c = typeof id === 'string' ? $(id) : id, ratio = window.devicePixelRatio || 1;
    const w = c.clientWidth, h = c.clientHeight;
    if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) {
      c.width = Math.round(w * ratio);
      c.height = Math.round(h * ratio);
    }
    const g = c.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, h);
    g.font = '11px system-ui, sans-serif';
    return { g, w, h, left: 62, bottom: h - 16 };
  }
  const xOf = (a, t) => a.left + (t - (now - range)) / range * (a.w - a.left - 2);

  function times(a) {
    const step = [10, 30, 60, 120, 300, 600, 900].find(s => range / s <= Math.max(2, (a.w - a.left) / 90)) || 1800;
    a.g.fillStyle = color('soft');
    a.g.strokeStyle = color('line');
    a.g.textAlign = 'center';
    for (let t = Math.ceil((now - range) / step) * step; t <= now; t += step) {
      const x = Math.round(xOf(a, t)) + .5;
      a.g.beginPath(); a.g.moveTo(x, 4); a.g.lineTo(x, a.bottom); a.g.stroke();
      if (x > a.left + 20 && x < a.w - 26) a.g.fillText(clock(t, step < 60), x, a.h - 3);
    }
  }

  function cross(a) {
    if (hover === null) return;
    const x = Math.round(xOf(a, hover)) + .5;
    if (x < a.left) return;
    a.g.strokeStyle = color('soft');
    a.g.beginPath(); a.g.moveTo(x, 2); a.g.lineTo(x, a.bottom); a.g.stroke();
  }

  // As many values as there are places for: rates as their mean, percentiles as their largest.
  function thin(at, values, places, largest) {
    const width = Math.max(1, range / places), out = [];
    let bucket = null, sum = 0, n = 0;
    const flush = () => { if (n) out.push([(bucket + .5) * width, largest ? sum : sum / n]); };
    for (let i = 0; i < at.length; i++) {
      const v = values[i];
      if (at[i] < now - range - width || v === null) continue;
      const b = Math.floor(at[i] / width);
      if (b !== bucket) { flush(); bucket = b; sum = 0; n = 0; }
      sum = largest ? Math.max(sum, v) : sum + v;
      n += 1;
    }
    flush();
    return out;
  }

  function ceiling(v) {
    if (v <= 0) return 1;
    const unit = 1024 ** Math.floor(Math.log(v) / Math.log(1024)), n = v / unit;
    return unit * [1, 2, 4, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 400, 512, 800, 1024].find(s => s >= n);
  }

  function lines(id, own, all, how) {
    const a = canvas(id), g = a.g, places = Math.max(20, (a.w - a.left) / 2);
    const drawn = all.map(s => ({ ...s, values: thin(own.points.at, own.points[s.of], places, how.log) }));
    let top = 0, low = Infinity;
    for (const s of drawn) for (const [, v] of s.values) { top = Math.max(top, v); if (v > 0) low = Math.min(low, v); }
    let y, marks;
    if (how.log) {
      const from = Math.floor(Math.log10(low === Infinity ? 1e-4 : low)), to = Math.max(from + 1, Math.ceil(Math.log10(top || 1e-2)));
      y = v => a.bottom - (Math.log10(v) - from) / (to - from) * (a.bottom - 8);
      marks = [];
      for (let e = from; e <= to; e++) marks.push(10 ** e);
    } else {
      top = ceiling(Math.max(top, how.least || 0));
      y = v => a.bottom - v / top * (a.bottom - 8);
      marks = how.low ? [0, top] : [0, top / 4, top / 2, top * 3 / 4, top];
    }
    times(a);
    g.textAlign = 'right';
    for (const m of marks) {
      g.fillStyle = color('soft');
      g.fillText(how.text(m), a.left - 6, y(m) + 4);
      g.strokeStyle = color('line');
      g.beginPath(); g.moveTo(a.left, Math.round(y(m)) + .5); g.lineTo(a.w, Math.round(y(m)) + .5); g.stroke();
    }
    g.save();
    g.beginPath(); g.rect(a.left, 0, a.w - a.left, a.h); g.clip();
    const gap = Math.max(5, 3 * range / places);
    for (const s of drawn) {
      g.strokeStyle = g.fillStyle = color(s.color);
      g.lineWidth = s.thin ? 1 : 1.6;
      g.globalAlpha = s.thin ? .65 : 1;
      for (let i = 0; i < s.values.length;) {
        let end = i + 1;
        while (end < s.values.length && s.values[end][0] - s.values[end - 1][0] <= gap) end++;
        g.beginPath();
        for (let k = i; k < end; k++) g.lineTo(xOf(a, s.values[k][0]), y(s.values[k][1]));
        if (end - i === 1) g.lineTo(xOf(a, s.values[i][0]) + 1.5, y(s.values[i][1]));
        g.stroke();
        if (s.fill) {
          g.lineTo(xOf(a, s.values[end - 1][0]), a.bottom);
          g.lineTo(xOf(a, s.values[i][0]), a.bottom);
          g.globalAlpha = .14; g.fill(); g.globalAlpha = 1;
        }
        i = end;
      }
      g.globalAlpha = 1;
    }
    if (how.limit && how.limit <= top) {
      g.setLineDash([5, 4]); g.strokeStyle = color('bad');
      g.beginPath(); g.moveTo(a.left, y(how.limit)); g.lineTo(a.w, y(how.limit)); g.stroke(); g.setLineDash([]);
    }
    g.restore();
    g.lineWidth = 1;
    cross(a);
  }

  function legend(id, parts) {
    $(id).replaceChildren(...parts.map(([key, what, value]) => {
      const e = make('span');
      if (key) e.append(make('i', 'key ' + key));
      e.append(what + ' ', make('b', '', value));
      return e;
    }));
  }

  // The value of a column at the time that is pointed at, or the last one.
  function value(own, column) {
    const at = own.points.at;
    if (hover === null) return at.length ? own.points[column][at.length - 1] : null;
    let best = -1;
    for (let i = at.length - 1; i >= 0 && at[i] >= hover - 2; i--) if (best < 0 || Math.abs(at[i] - hover) < Math.abs(at[best] - hover)) best = i;
    return best < 0 || Math.abs(at[best] - hover) > 3 ? null : own.points[column][best];
  }
  const or = (v, f) => v === null || v === undefined ? '–' : f(v);

  const ends = t => {
    const open = t.opened_at + t.open_ns / 1e9, hold = open + (t.quiesce_ns + t.wait_ns) / 1e9;
    return [t.opened_at, open, hold, hold + t.sync_ns / 1e9];
  };

  function txgChart(own) {
    const a = canvas('c-txg'), g = a.g, all = own.txgs.concat(own.pool.alive), rows = ['open', 'wait', 'sync'];
    const height = (a.bottom - 10) / 3;
    times(a);
    g.textAlign = 'right';
    g.fillStyle = color('soft');
    rows.forEach((r, i) => g.fillText(r, a.left - 6, 6 + height * (i + .5) + 4));
    g.save();
    g.beginPath(); g.rect(a.left, 0, a.w - a.left, a.h); g.clip();
    let pointed = null;
    for (const t of all) {
      const e = ends(t), odd = t.txg % 2;
      if (e[3] < now - range) continue;
      const fills = [color(odd ? 'odd' : 'even'), color('hold'), color(odd ? 'sync-odd' : 'sync-even')];
      for (let i = 0; i < 3; i++) {
        const x = xOf(a, e[i]), w = xOf(a, e[i + 1]) - x;
        if (w <= 0.05 && i === 1) continue;
        g.fillStyle = fills[i];
        g.fillRect(x, 6 + i * height, Math.max(w - (w > 4 ? 1 : 0), 1), height - 4);
      }
      if (t.delays || t.stops) {
        g.fillStyle = color('bad');
        g.fillRect(xOf(a, e[0]), 2, Math.max(2, xOf(a, e[1]) - xOf(a, e[0]) - 1), 3);
      }
      if (hover !== null && e[0] <= hover && hover <= e[3]) pointed = t;
    }
    g.restore();
    cross(a);
    const t = pointed || own.txgs[own.txgs.length - 1];
    const parts = [['even', 'open', ''], ['hold', 'quiesce and wait', ''], ['sync', 'sync', ''], ['bad', 'writers held back', '']];
    if (t) parts.push(['', 'txg ' + t.txg + ':', 'open ' + span(t.open_ns / 1e9) + ', quiesce ' + span(t.quiesce_ns / 1e9) + ', wait ' + span(t.wait_ns / 1e9)
      + ', sync ' + span(t.sync_ns / 1e9) + ', ' + bytes(t.written_bytes)]);
    legend('l-txg', parts);
  }

  // Tables. Rows are used again, so that a selection or a pointer in them survives an update.
  function table(id, heads, rows) {
    const t = $(id);
    if (!t.tHead) {
      const line = t.createTHead().insertRow();
      heads.forEach(([text, left]) => { const th = make('th', left ? 'left' : '', text); th.scope = 'col'; line.append(th); });
      t.createTBody();
    }
    const body = t.tBodies[0];
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach((cells, i) => {
      const line = body.rows[i] || body.insertRow();
      cells.forEach((cell, k) => {
        const td = line.cells[k] || line.insertCell();
        if (typeof cell === 'function') { cell(td); return; }
        const [text, name] = Array.isArray(cell) ? cell : [cell, ''];
        if (td.textContent !== text) td.textContent = text;
        if (td.className !== (name || '')) td.className = name || '';
      });
    });
  }

  const STATES = { O: 'open', Q: 'quiescing', W: 'waiting', S: 'syncing', C: 'durable' };
  function txgTable(own) {
    const rows = own.txgs.slice(-TXGS_SHOWN).concat(own.pool.alive).reverse();
    table('t-txg', [['txg'], ['state', 1], ['open'], ['quiesce'], ['wait'], ['sync'], ['dirty'], ['written'], ['delays'], ['delayed'], ['pushed by', 1]], rows.map(t => {
      const time = ns => ns ? span(ns / 1e9) : '–';
      return [String(t.txg), [STATES[t.state] || t.state, 'left ' + (t.state === 'C' ? 'soft' : 'ok')], time(t.open_ns), time(t.quiesce_ns), time(t.wait_ns), time(t.sync_ns),
        bytes(t.dirty_bytes), bytes(t.written_bytes), [count(t.delays + t.stops), t.delays + t.stops ? 'warn' : ''], time(t.delayed_ns + t.stopped_ns),
        [t.state === 'O' || t.state === 'Q' ? '' : t.pushed, 'left soft']];
    }));
  }

  function spark(td, values) {
    let c = td.querySelector('canvas');
    if (!c) { c = make('canvas', 'spark'); td.append(c); }
    const a = canvas(c), top = Math.max(...values, 1);
    a.g.fillStyle = color('read');
    values.forEach((v, i) => { const h = v / top * (a.h - 1); a.g.fillRect(a.w - (values.length - i) * a.w / SPARKS, a.h - h, Math.max(.6, a.w / SPARKS - .2), h); });
  }

  const indent = (text, depth, title) => td => {
    td.className = 'name left';
    td.style.paddingLeft = (.5 + depth * .9) + 'rem';
    if (td.textContent !== text) td.textContent = text;
    td.title = title || text;
  };

  function vdevTable(own) {
    const rows = [];
    let section = '';
    for (const v of own.pool.vdevs) {
      if (v.depth === 1 && v.section !== section) section = v.section;
      const bad = n => [count(n), n ? 'bad' : 'soft'];
      const name = v.name.length > 44 ? '…' + v.name.slice(-43) : v.name;
      rows.push([indent(name + (v.depth === 1 && section ? ' (' + section + ')' : ''), v.depth - 1, v.name), [v.state + (v.remark ? ': ' + v.remark : ''), 'left ' + kind(v.state)],
        td => spark(td, own.sparks.get(v.guid) || []), count(v.rates[0]), count(v.rates[1]), rate(v.rates[2]), rate(v.rates[3]), span(v.wait[0]), span(v.wait[1]),
        v.queue[0] + ' + ' + v.queue[1], bad(v.errors[0]), bad(v.errors[1]), bad(v.errors[2]), v.depth === 1 && v.size_bytes ? bytes(v.allocated_bytes) + ' / ' + bytes(v.size_bytes) : '']);
    }
    table('t-vdevs', [['device'], ['state', 1], ['2 minutes'], ['reads/s'], ['writes/s'], ['read'], ['written'], ['50 %'], ['99 %'], ['queue'], ['R err'],
      ['W err'], ['cksum'], ['used']], rows);
  }

  function parts(td, list, whole) {
    let bar = td.querySelector('.bar');
    if (!bar) { bar = make('div', 'bar'); list.forEach(([name]) => bar.append(make('i', name))); td.append(bar); }
    list.forEach(([name, n], i) => { bar.children[i].className = name; bar.children[i].style.width = (whole > 0 ? Math.min(100, 100 * n / whole) : 0) + '%'; });
  }

  function spaceTable(own) {
    const report = own.pool.report;
    if (!report) return;
    const all = Math.max(1, ...report.datasets.map(d => d.used_bytes));
    table('t-space', [['dataset'], ['share', 1], ['used'], ['by itself'], ['snapshots'], ['refers to'], ['available'], ['read'], ['written']], report.datasets.map(d => [
      indent(d.name.split('/').pop() + (d.is_volume ? ' (volume)' : ''), d.name.split('/').length - 1, d.name),
      td => parts(td, [['', d.by_itself_bytes], ['snap', d.by_snapshots_bytes], ['below', Math.max(0, d.used_bytes - d.by_itself_bytes - d.by_snapshots_bytes)]], all),
      bytes(d.used_bytes), bytes(d.by_itself_bytes), bytes(d.by_snapshots_bytes), bytes(d.referenced_bytes), bytes(d.available_bytes),
      d.rates[0] ? rate(d.rates[0]) : '', d.rates[1] ? rate(d.rates[1]) : '']));
    const left = report.left_out ? [['', 'and smaller ones left out:', String(report.left_out)]] : [];
    legend('l-space', [['read', 'itself', ''], ['write', 'snapshots', ''], ['below', 'below it or reserved', '']].concat(left));
  }

  function scan(own) {
    const s = own.pool.report && own.pool.report.scan;
    $('scan').hidden = !s;
    if (!s) return;
    const runs = s.state === 'active' || s.state === 'paused', share = s.to_examine_bytes ? Math.min(1, s.examined_bytes / s.to_examine_bytes) : 1;
    $('scan-what').textContent = s.what === 'scrub' ? 'Scrub' : 'Resilver';
    $('scan-bar').style.width = (runs ? 100 * share : 100) + '%';
    const took = (runs ? now : s.ended) - s.began, errors = s.errors + (s.errors === 1 ? ' error' : ' errors');
    const left = s.state === 'active' && share > .01 ? ', about ' + span(took / share - took) + ' left' : '';
    const done = (s.what === 'scrub' ? 'repaired ' : 'resilvered ') + bytes(s.processed_bytes) + ', ' + errors;
    $('scan-text').textContent = runs ? (100 * share).toFixed(1) + ' %: ' + bytes(s.examined_bytes) + ' of ' + bytes(s.to_examine_bytes) + ' in ' + span(took) + left + '; ' + done
      + (s.state === 'paused' ? '; paused' : '') : s.state + ' on ' + new Date(s.ended * 1000).toLocaleString() + ' after ' + span(took) + ': ' + done;
  }

  function tiles(own) {
    const p = own.pool, r = p.report;
    const last = c => own.points[c].length ? own.points[c][own.points[c].length - 1] : 0;
    const minute = c => { const v = own.points[c].slice(-60).filter(x => x !== null); return v.length ? Math.max(...v) : null; };
    const used = p.size_bytes ? p.allocated_bytes / p.size_bytes : 0, dirty = p.dirty_max_bytes ? p.dirty_bytes / p.dirty_max_bytes : 0;
    const hits = p.cache[0] + p.cache[1];
    const errors = p.vdevs.reduce((n, v) => n + v.errors[0] + v.errors[1] + v.errors[2], 0) + (r ? r.damaged : 0);
    const all = [
      [p.state || '?', p.suspended || (errors ? count(errors) + ' errors' : 'no known errors'), kind(p.state), null],
      [(100 * used).toFixed(1) + ' %', bytes(p.allocated_bytes) + ' of ' + bytes(p.size_bytes) + ' used', used > .9 ? 'bad' : '', used],
      [rate(last('read')), 'read, ' + count(last('reads')) + ' operations/s', '', null],
      [rate(last('written')), 'written, ' + count(last('writes')) + ' operations/s', '', null],
      [bytes(p.dirty_bytes), 'dirty of ' + bytes(p.dirty_max_bytes), dirty > .9 ? 'bad' : '', dirty],
      [span(minute('read_p99')) + ' / ' + span(minute('write_p99')), '99 % of reads / writes, last minute', '', null],
      [hits ? (100 * p.cache[0] / hits).toFixed(0) + ' %' : '–', 'of lookups found in the cache', '', null],
      ['txg ' + p.txg, 'durable; held for ' + span(p.open_seconds), '', null],
    ];
    const box = $('tiles');
    all.forEach(([big, small, name, share], i) => {
      const tile = box.children[i] || box.appendChild(make('div', 'tile'));
      if (!tile.firstChild) { tile.append(make('b'), make('span')); if (share !== null) { tile.append(make('div', 'bar')); tile.lastChild.append(make('i')); } }
      tile.children[0].textContent = big;
      tile.children[0].className = name;
      tile.children[1].textContent = small;
      if (share !== null) { tile.children[2].firstChild.style.width = 100 * share + '%'; tile.children[2].firstChild.className = share > .9 ? 'full' : ''; }
    });
  }

  function charts(own) {
    lines('c-rate', own, [{ of: 'read', color: 'read', fill: 1 }, { of: 'written', color: 'write', fill: 1 }], { text: rate, least: 1024 });
    legend('l-rate', [['read', 'read', or(value(own, 'read'), rate)], ['write', 'written', or(value(own, 'written'), rate)],
      ['', 'operations', or(value(own, 'reads'), count) + ' + ' + or(value(own, 'writes'), count) + ' /s']]);
    lines('c-wait', own, [{ of: 'read_p50', color: 'read', thin: 1 }, { of: 'write_p50', color: 'write', thin: 1 }, { of: 'read_p99', color: 'read' },
      { of: 'write_p99', color: 'write' }], { text: span, log: 1 });
    legend('l-wait', [['read', 'reads 50 / 99 %', span(value(own, 'read_p50')) + ' / ' + span(value(own, 'read_p99'))],
      ['write', 'writes 50 / 99 %', span(value(own, 'write_p50')) + ' / ' + span(value(own, 'write_p99'))]]);
    txgChart(own);
    lines('c-dirty', own, [{ of: 'dirty', color: 'even', fill: 1 }], { text: bytes, low: 1, least: 65536, limit: own.pool.dirty_max_bytes });
    legend('l-dirty', [['even', 'dirty data', or(value(own, 'dirty'), bytes) + ' of ' + bytes(own.pool.dirty_max_bytes)]]);
  }

  function tabs() {
    const nav = $('pools'), all = [...known.values()].map(o => o.pool);
    while (nav.children.length > all.length) nav.lastChild.remove();
    all.forEach((p, i) => {
      let b = nav.children[i];
      if (!b) {
        b = nav.appendChild(make('button'));
        b.type = 'button';
        b.append(make('i', 'dot'), make('span'));
        b.addEventListener('click', () => { chosen = b.dataset.guid; show(); });
      }
      b.dataset.guid = p.guid;
      b.children[0].className = 'dot ' + kind(p.state);
      b.children[1].textContent = p.name;
      b.setAttribute('aria-pressed', String(p.guid === chosen));
    });
  }

  function show() {
    if (!known.has(chosen)) chosen = known.size ? known.keys().next().value : null;
    tabs();
    const own = known.get(chosen);
    $('main').hidden = !own;
    if (!own) { notice('no pool is held here'); document.title = 'zinc'; return; }
    const p = own.pool, at = own.points.at;
    now = at.length ? at[at.length - 1] : Date.now() / 1000;
    // What is not there yet takes no room.
    range = Math.min(wanted, Math.max(RANGE_MIN, at.length ? now - at[0] : 0));
    notice(p.age > 5 ? p.name + ': no figures for ' + span(p.age) : '');
    const advice = p.report && p.report.advice;
    $('advice').hidden = !advice;
    if (advice) { $('advice-what').textContent = advice[0]; $('advice-do').textContent = advice[1]; }
    tiles(own); charts(own); txgTable(own); scan(own); vdevTable(own); spaceTable(own);
    $('seen').textContent = 'as of ' + clock(now, true) + ', once a second;';
    document.title = (p.state === 'ONLINE' ? '' : '⚠ ') + p.name + ' ' + p.state.toLowerCase();
  }

  // What the user turns.
  for (const [seconds, text] of RANGES) {
    const b = $('ranges').appendChild(make('button', '', text));
    b.type = 'button';
    const mark = () => [...$('ranges').children].forEach((c, i) => c.setAttribute('aria-pressed', String(RANGES[i][0] === wanted)));
    b.addEventListener('click', () => { wanted = seconds; mark(); show(); });
    mark();
  }
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  const THEMES = ['auto', 'light', 'dark'];
  let theme = 'auto';
  try { theme = THEMES.includes(localStorage.getItem('theme')) ? localStorage.getItem('theme') : 'auto'; } catch (e) { /* storage is off: auto */ }
  function paint() {
    document.documentElement.dataset.theme = theme === 'auto' ? (dark.matches ? 'dark' : 'light') : theme;
    $('theme').textContent = theme;
    $('theme').title = 'colours: ' + theme;
    if (known.size) show();
  }
  $('theme').addEventListener('click', () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    try { localStorage.setItem('theme', theme); } catch (e) { /* it lasts as long as the page */ }
    paint();
  });
  dark.addEventListener('change', paint);
  for (const id of ['c-rate', 'c-wait', 'c-txg', 'c-dirty']) {
    const c = $(id);
    c.addEventListener('pointermove', e => {
      const part = (e.offsetX - 62) / (c.clientWidth - 64);
      hover = part < 0 ? null : now - range + part * range;
      if (known.has(chosen)) charts(known.get(chosen));
    });
    c.addEventListener('pointerleave', () => { hover = null; if (known.has(chosen)) charts(known.get(chosen)); });
  }
  window.addEventListener('resize', () => { if (known.size) show(); });
  paint();
  poll();
})();
