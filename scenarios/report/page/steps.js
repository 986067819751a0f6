'use strict';
// One step: compute, sends, receives and memory of each device over time.

const phases = [
  {name: 'forward', colour: '#3d7fc4'}, {name: 'backward', colour: '#e0872b'}, {name: 'update', colour: '#3a9e60'}];
const kinds = [
  {name: 'weights', colour: '#7d8fa3'}, {name: 'outputs', colour: '#5b9bd5'},
  {name: 'copies', colour: '#e8a95c'}, {name: 'workspace', colour: '#8cc084'}];
const moves = {send: '#1f9aa8', receive: '#8a6bc9'};
// Indexed by the numbers in the picture.
const pathKinds = [
  {name: 'computing', colour: '#5b6470'}, {name: 'transferring', colour: '#1f9aa8'},
  {name: 'waiting for a channel', colour: '#9fd6dc'}, {name: 'waiting for a device', colour: '#d9a9c6'},
  {name: 'in a collective', colour: '#b08a2e'}];
const groupColour = g => g === 0 ? '#a3abb5' : `hsl(${(g * 137.508) % 360} 55% ${48 + (g * 7) % 15}%)`;

// Converts [start, length, ...] in whole quanta, with starts relative to the previous one, to
// objects in ns.
function slices(flat, width, quantum) {
  const list = [];
  for (let i = 0, at = 0; i < flat.length; i += width) {
    at += flat[i];
    list.push({start: at * quantum, end: (at + flat[i + 1]) * quantum, what: flat[i + 2],
      count: flat[i + 3], a: flat[i + 4], group: width > 5 ? flat[i + 5] : 0});
  }
  return list;
}

function decode(step) {
  if (step.path && !step.pathParts) step.pathParts = slices(step.path, 6, step.quantum);
  for (const d of step.devices) {
    if (d.decoded) continue;
    d.decoded = true;
    d.compute = slices(d.compute, 6, step.quantum);
    d.send = slices(d.send, 5, step.quantum);
    d.receive = slices(d.receive, 5, step.quantum);
    const samples = [];
    for (let i = 0, at = 0; i < d.memory.length; i += 5) {
      at += d.memory[i];
      samples.push({at: at * step.quantum, use: d.memory.slice(i + 1, i + 5).map(n => n * step.unit)});
    }
    d.memory = samples;
  }
  return step;
}

class StepView {
  constructor(container) {
    this.title = element('div', {className: 'title'});
    this.canvas = element('canvas');
    this.tip = element('div', {className: 'tip'});
    container.append(element('div', {className: 'step'}, this.title, this.canvas, this.tip));
    this.canvas.addEventListener('wheel', e => this.zoom(e), {passive: false});
    this.canvas.addEventListener('pointerdown', e => { this.dragged = e.offsetX; this.canvas.setPointerCapture(e.pointerId); });
    this.canvas.addEventListener('pointerup', () => { this.dragged = undefined; });
    this.canvas.addEventListener('pointermove', e => this.move(e));
    this.canvas.addEventListener('pointerleave', () => { this.tip.style.display = 'none'; });
    this.canvas.addEventListener('dblclick', () => { this.window = [0, this.span]; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.canvas.parentElement);
  }

  // `span`: ns in the full width.
  show(id, span, byGroup) {
    this.id = id;
    this.step = decode(page.steps[id].picture);
    this.names = page.names[page.steps[id].graph] || {};
    if (this.span !== span) this.window = [0, span];
    this.span = span;
    this.byGroup = byGroup;
    const {title, oom} = {title: page.steps[id].title, oom: this.step.oom};
    this.title.replaceChildren(element('b', {textContent: title}), ' ', oom
      ? element('span', {className: 'warn', textContent:
          `out of memory on ${this.step.devices[oom.device].name} at ${timeText(oom.ns)}: '${oom.op}' asks for ${sizeText(oom.needed)}, ${sizeText(oom.free)} are free`})
      : element('span', {textContent: timeText(this.step.ns)}));
    this.layOut();
    this.draw();
  }

  // Computes the positions of each device's tracks, top to bottom.
  layOut() {
    let y = this.step.pathParts && this.step.pathParts.length ? 48 : 26;
    this.rows = this.step.devices.map(d => {
      const row = {device: d, compute: y};
      y += 22;
      if (d.send.length || d.receive.length) {
        row.send = y;
        row.receive = y + 9;
        y += 19;
      }
      row.memory = y;
      y += 46;
      row.bottom = y;
      y += 14;
      return row;
    });
    this.height = y;
    const most = this.step.devices.map(d => Math.max(d.peak, ...d.memory.map(s => s.use.reduce((a, b) => a + b, 0))));
    // Includes the limits unless little of them is used.
    const limit = Math.max(...this.step.devices.map(d => d.limit));
    const used = Math.max(1, ...most);
    this.memoryTop = used > limit / 2 ? Math.max(limit, used) * 1.06 : used * 1.15;
  }

  draw() {
    if (!this.step) return;
    const box = this.canvas.parentElement.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    this.width = Math.max(320, Math.floor(box.width) - 2);
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    this.canvas.style.height = this.height + 'px';
    this.left = 118;
    this.right = this.width - 14;
    const g = this.canvas.getContext('2d');
    g.scale(ratio, ratio);
    g.font = '11px system-ui, sans-serif';
    g.textBaseline = 'middle';
    this.drawTimeAxis(g);
    this.drawPath(g);
    for (const row of this.rows) this.drawDevice(g, row);
    if (this.step.oom) this.drawOutOfMemory(g);
  }

  x(ns) {
    const [from, to] = this.window;
    return this.left + (ns - from) / (to - from) * (this.right - this.left);
  }
  time(x) {
    const [from, to] = this.window;
    return from + (x - this.left) / (this.right - this.left) * (to - from);
  }

  drawTimeAxis(g) {
    const [from, to] = this.window;
    const rough = (to - from) / 8;
    const power = 10 ** Math.floor(Math.log10(rough));
    const tick = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
    const unit = unitOf(timeUnits, to);
    g.textAlign = 'center';
    for (let t = Math.ceil(from / tick) * tick; t <= to * (1 + 1e-9); t += tick) {
      const x = this.x(t);
      g.fillStyle = css('--grid');
      g.fillRect(x, 20, 1, this.height - 30);
      g.fillStyle = css('--soft');
      g.fillText(+(t / unit.scale).toPrecision(8) + ' ' + unit.name, Math.min(x, this.right - 20), 10);
    }
  }

  drawDevice(g, row) {
    const d = row.device;
    g.textAlign = 'left';
    g.fillStyle = css('--fg');
    g.font = 'bold 12px system-ui, sans-serif';
    g.fillText(d.name, 10, row.compute + 9);
    g.font = '11px system-ui, sans-serif';
    g.fillStyle = css('--soft');
    g.fillText(`${(100 * d.busy / Math.max(1, this.step.ns)).toFixed(0)} % busy`, 10, row.compute + 25);
    g.fillText(`peak ${sizeText(d.peak)}`, 10, row.bottom - 20);
    g.fillText(`of ${sizeText(d.limit)}`, 10, row.bottom - 7);
    const clip = new Path2D();
    clip.rect(this.left, 0, this.right - this.left, this.height);
    g.save();
    g.clip(clip);
    g.fillStyle = css('--grid');
    g.fillRect(this.left, row.compute, this.right - this.left, 18);
    const colour = s => this.byGroup ? groupColour(s.group) : phases[s.a].colour;
    this.drawSlices(g, d.compute, row.compute, 18, colour);
    if (row.send) {
      this.drawSlices(g, d.send, row.send, 7, () => moves.send);
      this.drawSlices(g, d.receive, row.receive, 7, () => moves.receive);
    }
    this.drawMemory(g, row);
    g.restore();
  }

  drawPath(g) {
    const path = this.step.pathParts || [];
    if (!path.length) return;
    g.textAlign = 'left';
    g.fillStyle = css('--fg');
    g.fillText('critical path', 10, 32);
    const clip = new Path2D();
    clip.rect(this.left, 0, this.right - this.left, this.height);
    g.save();
    g.clip(clip);
    this.drawSlices(g, path, 26, 12, s => pathKinds[s.a].colour);
    g.restore();
  }

  drawSlices(g, list, y, height, colour) {
    const end = this.step.ns;
    for (const s of list) {
      const x = this.x(s.start), right = this.x(Math.min(s.end, end));
      if (right < this.left || x > this.right) continue;
      const width = right - x;
      g.fillStyle = colour(s);
      g.globalAlpha = s.count > 1 ? 0.8 : 1;
      g.fillRect(x, y, Math.max(0.6, width > 4 ? width - 0.7 : width), height);
      if (width > 60 && height > 12 && s.count === 1) this.label(g, s, x, width, y + height / 2);
    }
    g.globalAlpha = 1;
  }

  label(g, slice, x, width, y) {
    const name = this.name(slice.what);
    const room = Math.floor((width - 8) / 6.2);
    g.fillStyle = '#fff';
    g.fillText(name.length > room ? name.slice(-room) : name, x + 4, y);
  }

  // Stacked by kind; a sample is valid until the next one.
  drawMemory(g, row) {
    const d = row.device, height = row.bottom - row.memory;
    const y = bytes => row.bottom - bytes / this.memoryTop * height;
    const samples = d.memory;
    const below = samples.map(() => 0);
    kinds.forEach((kind, k) => {
      g.beginPath();
      samples.forEach((s, i) => {
        const x = this.x(s.at), next = this.x(i + 1 < samples.length ? samples[i + 1].at : this.step.ns);
        if (i === 0) g.moveTo(x, y(0));
        g.lineTo(x, y(below[i] + s.use[k]));
        g.lineTo(next, y(below[i] + s.use[k]));
      });
      for (let i = samples.length - 1; i >= 0; --i) {
        const next = this.x(i + 1 < samples.length ? samples[i + 1].at : this.step.ns);
        g.lineTo(next, y(below[i]));
        g.lineTo(this.x(samples[i].at), y(below[i]));
      }
      g.fillStyle = kind.colour;
      g.fill();
      samples.forEach((s, i) => { below[i] += s.use[k]; });
    });
    g.fillStyle = css('--line');
    g.fillRect(this.left, row.bottom, this.right - this.left, 1);
    if (d.limit <= this.memoryTop) {
      g.strokeStyle = css('--alarm');
      g.setLineDash([5, 4]);
      g.beginPath();
      g.moveTo(this.left, y(d.limit));
      g.lineTo(this.right, y(d.limit));
      g.stroke();
      g.setLineDash([]);
    }
  }

  drawOutOfMemory(g) {
    const {device, ns} = this.step.oom, row = this.rows[device], x = this.x(ns);
    if (x < this.left || x > this.right + 1) return;
    g.fillStyle = css('--alarm');
    g.fillRect(x - 1, row.compute - 4, 2, row.bottom - row.compute + 4);
    g.textAlign = x > this.width / 2 ? 'right' : 'left';
    g.fillText('out of memory', x + (x > this.width / 2 ? -5 : 5), row.bottom + 7);
  }

  name(op) {
    return this.names[op] === undefined ? `op ${op}` : this.names[op];
  }

  zoom(event) {
    event.preventDefault();
    const at = Math.min(this.span, Math.max(0, this.time(event.offsetX)));
    const factor = event.deltaY > 0 ? 1.25 : 0.8;
    const [from, to] = this.window;
    const width = Math.min(this.span, Math.max(this.span / 2000, (to - from) * factor));
    const left = Math.min(this.span - width, Math.max(0, at - (at - from) / (to - from) * width));
    this.window = [left, left + width];
    this.draw();
  }

  move(event) {
    if (this.dragged !== undefined) {
      const [from, to] = this.window;
      const shift = Math.max(-from, Math.min(this.span - to, this.time(this.dragged) - this.time(event.offsetX)));
      this.window = [from + shift, to + shift];
      this.dragged = event.offsetX;
      return this.draw();
    }
    const text = this.at(event.offsetX, event.offsetY);
    this.tip.style.display = text ? 'block' : 'none';
    this.tip.textContent = text;
    const shift = event.offsetX > this.width * 0.6 ? -this.tip.offsetWidth - 12 : 14;
    this.tip.style.left = event.offsetX + shift + 'px';
    this.tip.style.top = this.canvas.offsetTop + event.offsetY + 16 + 'px';
  }

  // A description of what is drawn at a point; '' if nothing.
  at(x, y) {
    if (x < this.left || x > this.right) return '';
    const time = this.time(x), near = (this.window[1] - this.window[0]) / (this.right - this.left) * 2;
    if (y >= 24 && y <= 40 && this.step.pathParts) {
      const s = this.step.pathParts.find(part => part.start <= time && part.end >= time);
      if (!s) return '';
      const many = s.count > 1 ? `${s.count} parts, the longest ` : '';
      return `critical path: ${many}${pathKinds[s.a].name}\n${this.name(s.what)} on ${this.step.devices[s.group].name}\n${timeText(s.start)} to ${timeText(s.end)}, ${timeText(s.end - s.start)}`;
    }
    const row = this.rows.find(r => y >= r.compute && y <= r.bottom);
    if (!row) return '';
    const find = list => list.filter(s => s.start <= time + near && s.end >= time - near)
      .sort((a, b) => Math.abs(a.start + a.end - 2 * time) - Math.abs(b.start + b.end - 2 * time))[0];
    const when = s => `${timeText(s.start)} to ${timeText(s.end)}, ${timeText(s.end - s.start)}`;
    if (y < row.compute + 20) {
      const s = find(row.device.compute);
      if (!s) return '';
      const group = s.group ? `, group ${s.group}` : '';
      return s.count > 1
        ? `${s.count} ops, the longest ${this.name(s.what)}\n${when(s)}`
        : `${this.name(s.what)}\n${phases[s.a].name}${group}\n${when(s)}`;
    }
    if (y < row.memory) {
      const sending = y < row.receive;
      const s = find(sending ? row.device.send : row.device.receive);
      if (!s) return '';
      const peer = this.step.devices[s.a].name;
      return `${sending ? 'sends' : 'receives'} ${s.count > 1 ? `${s.count} tensors, the longest by` : 'what came from'} ${this.name(s.what)}\n${sending ? 'to' : 'from'} ${peer}\n${when(s)}`;
    }
    const sample = row.device.memory.filter(s => s.at <= time).pop();
    if (!sample) return '';
    const total = sample.use.reduce((a, b) => a + b, 0);
    return [`${row.device.name} at ${timeText(time)}: ${sizeText(total)}`,
      ...kinds.map((k, i) => `${k.name} ${sizeText(sample.use[i])}`)].join('\n');
  }
}

class Steps {
  constructor(container) {
    this.container = container;
    this.ids = Object.keys(page.steps);
    this.selects = [0, 1].map(n => this.selection(n));
    const groups = this.ids.some(id => page.steps[id].grouped);
    this.colour = element('select', {onchange: () => this.draw()},
      element('option', {value: 'phase', textContent: 'phase'}),
      ...(groups ? [element('option', {value: 'group', textContent: 'colocation group'})] : []));
    this.key = element('ul', {className: 'key'});
    container.append(
      element('div', {className: 'controls'},
        element('label', {}, 'step of ', this.selects[0]),
        element('label', {}, 'compared with ', this.selects[1]),
        element('label', {}, 'ops coloured by ', this.colour)),
      this.key);
    this.pair = element('div', {className: 'pair'});
    container.append(this.pair);
    this.views = [new StepView(this.pair)];
    document.querySelectorAll('td[data-run]').forEach(cell => {
      cell.addEventListener('click', event => {
        if (event.target.closest('a')) return;  // to explain
        this.selects[event.shiftKey ? 1 : 0].value = cell.dataset.run;
        this.draw();
        container.scrollIntoView({behavior: 'smooth'});
      });
    });
    this.draw();
  }

  // A selection of the runs, grouped by point.
  selection(number) {
    const select = element('select', {onchange: () => this.draw()});
    if (number === 1) select.append(element('option', {value: '', textContent: 'nothing'}));
    const points = new Map();
    for (const id of this.ids) {
      const {point} = page.steps[id];
      if (!points.has(point)) points.set(point, []);
      points.get(point).push(id);
    }
    for (const [point, ids] of points)
      select.append(element('optgroup', {label: point}, ...ids.map(id => {
        const {placer, picture} = page.steps[id];
        return element('option', {value: id, textContent: `${placer}: ${picture.oom ? 'out of memory' : timeText(picture.ns)}`});
      })));
    if (number === 0) select.value = page.first;
    return select;
  }

  draw() {
    const ids = this.selects.map(s => s.value).filter(id => id !== '');
    while (this.views.length < ids.length) this.views.push(new StepView(this.pair));
    this.views.forEach((view, i) => { view.canvas.parentElement.style.display = i < ids.length ? '' : 'none'; });
    const span = Math.max(1, ...ids.map(id => page.steps[id].picture.ns));
    const byGroup = this.colour.value === 'group';
    ids.forEach((id, i) => this.views[i].show(id, span, byGroup));
    document.querySelectorAll('td[data-run]').forEach(cell => {
      cell.classList.toggle('chosen', ids.includes(cell.dataset.run));
    });
    const entry = (colour, name) => element('li', {}, element('i', {style: `background: ${colour}`}), name);
    const ops = byGroup ? [entry(groupColour(0), 'in no group'), element('li', {textContent: 'each group a colour of its own'})]
      : phases.map(p => entry(p.colour, p.name));
    const limit = element('li', {}, element('i', {className: 'line', style: 'border-color: var(--alarm)'}), "the device's memory");
    this.key.replaceChildren(...ops, entry(moves.send, 'sends'), entry(moves.receive, 'receives'),
      ...kinds.map(k => entry(k.colour, k.name)), limit,
      ...(ids.some(id => page.steps[id].picture.path && page.steps[id].picture.path.length)
        ? [element('li', {textContent: 'critical path:'}), ...pathKinds.map(k => entry(k.colour, k.name))] : []));
    document.body.dataset.steps = String(ids.length);
  }
}

if (Object.keys(page.steps).length) new Steps(document.getElementById('steps'));
