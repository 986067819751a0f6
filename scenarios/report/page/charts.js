'use strict';
// Step time and peak memory of one table, along one of its axes.

const page = JSON.parse(document.getElementById('data').textContent);
// The palette of Okabe and Ito (2008), safe for colour-blind readers. With the marks, 56 placers
// differ.
const colours = ['#0072b2', '#e69f00', '#009e73', '#d55e00', '#cc79a7', '#56b4e9', '#777777', '#a89f00'];
const marks = [{style: 'circle'}, {style: 'rect'}, {style: 'triangle'}, {style: 'rectRot'},
  {style: 'triangle', turn: 180}, {style: 'star'}, {style: 'cross'}];
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function element(tag, properties, ...children) {
  const e = Object.assign(document.createElement(tag), properties);
  e.append(...children);
  return e;
}

// The largest unit that is at most `most`: {scale, name}.
function unitOf(units, most) {
  let best = units[0];
  for (const u of units) if (most >= u.scale) best = u;
  return best;
}
const timeUnits = [{scale: 1, name: 'ns'}, {scale: 1e3, name: 'us'}, {scale: 1e6, name: 'ms'},
  {scale: 1e9, name: 's'}];
const sizeUnits = [{scale: 1, name: 'B'}, {scale: 1024, name: 'KiB'},
  {scale: 1024 ** 2, name: 'MiB'}, {scale: 1024 ** 3, name: 'GiB'}, {scale: 1024 ** 4, name: 'TiB'}];
function inWords(units, value) {
  const u = unitOf(units, value);
  const n = value / u.scale;
  return (u.scale === 1 ? n.toFixed(0) : n.toPrecision(n >= 1000 ? 4 : 3)) + ' ' + u.name;
}
const timeText = ns => inWords(timeUnits, ns);
const sizeText = bytes => inWords(sizeUnits, bytes);

// The short form of a swept value.
const short = value => page.labels[value] || value;

// The parts of peak memory, in the order of page_data.h.
const partNames = ['weights', 'gradients', 'optimizer state', 'activations', 'workspace', 'copies'];

const status = {ok: 0, oom: 1, infeasible: 2, error: 3};
const statusText = ['ok', 'out of memory', 'infeasible', 'error'];

function distinct(values) {
  return [...new Set(values)];
}

// The x scale of an axis: linear or logarithmic for numbers and quantities; words are placed one
// after another.
function xScale(axis, values, title) {
  const common = {title: {display: true, text: title}, grid: {color: css('--grid')}};
  if (axis.kind === 'words')
    return {words: true, at: values.map(short),
      scale: {...common, type: 'category', labels: values.map(short), offset: true}};
  const at = values.map(value => axis.at[value]);
  const [low, high] = [Math.min(...at), Math.max(...at)];
  const logarithmic = axis.kind === 'logarithmic';
  const factor = Math.pow(high / low, 0.03), margin = (high - low) * 0.03;
  const text = new Map(at.map((number, i) => [number, short(values[i])]));
  return {
    at,
    scale: {...common, type: logarithmic ? 'logarithmic' : 'linear',
      min: logarithmic ? low / factor : low - margin, max: logarithmic ? high * factor : high + margin,
      afterBuildTicks: scale => { scale.ticks = [...at].sort((a, b) => a - b).map(value => ({value})); },
      ticks: {callback: value => text.get(value), autoSkip: true}}
  };
}

const narrow = 450;  // pixels: the legend alone names the lines
// Labels each line at its end; overlapping labels are moved apart.
const directLabels = {
  id: 'directLabels',
  afterDatasetsDraw(chart) {
    const {ctx, chartArea} = chart;
    if (chart.width < narrow) return;
    const labels = [];
    chart.data.datasets.forEach((d, i) => {
      if (!d.row || !chart.isDatasetVisible(i)) return;
      const drawn = chart.getDatasetMeta(i).data.filter((_, k) => d.data[k].y !== null);
      if (drawn.length) labels.push({text: labelText(d.label), colour: d.borderColor, y: drawn.at(-1).y});
    });
    labels.sort((a, b) => a.y - b.y);
    const apart = 12;
    labels.forEach((l, i) => { if (i > 0) l.y = Math.max(l.y, labels[i - 1].y + apart); });
    let bottom = chartArea.bottom;
    for (const l of [...labels].reverse()) { l.y = Math.min(l.y, bottom); bottom = l.y - apart; }
    ctx.save();
    ctx.font = '11px system-ui, sans-serif';
    ctx.textBaseline = 'middle';
    for (const l of labels) { ctx.fillStyle = l.colour; ctx.fillText(l.text, chartArea.right + 8, l.y); }
    ctx.restore();
  }
};
const labelText = name => name.length > 22 ? name.slice(0, 20) + '...' : name;

function makeChart(canvas, config) {
  return new Chart(canvas, {
    type: 'line',
    plugins: [directLabels],
    ...config,
    options: {
      animation: false, maintainAspectRatio: false, locale: 'en-US', parsing: {xAxisKey: 'x', yAxisKey: 'y'},
      interaction: {mode: 'nearest', intersect: false},
      ...config.options
    }
  });
}

class TableCharts {
  constructor(table, container) {
    this.table = table;
    this.held = table.axes.map((_, a) => table.columns[0][a]);
    const memory = table.axes.indexOf('memory fraction');
    this.along = memory >= 0 ? memory : table.axes.length - 1;
    this.controls = element('div', {className: 'controls'});
    this.canvases = (table.peaks ? [0, 1] : [0]).map(() => element('canvas'));
    this.charts = [];
    this.logarithmic = false;
    this.view = table.rows.length > 1 ? 'best' : 'time';
    this.heat = element('div', {className: 'scroll'});
    container.append(this.controls,
      element('div', {className: 'charts'},
        ...this.canvases.map(c => element('div', {className: 'chart'}, c))),
      this.heat,
      element('p', {className: 'hint', textContent: '✕ out of memory (in the right chart: used until then)   ' +
        '◆ infeasible: the placer found nothing that fits   ▲ error   A click on a name hides it.'}));
    this.draw();
  }

  // A selection for the axis of the chart, and one for the value of each other axis.
  drawControls() {
    const {axes, columns} = this.table;
    const choose = (label, options, chosen, change) => {
      const select = element('select', {onchange: () => { change(select.value); this.draw(); }},
        ...options.map(o => element('option', {value: o.value, textContent: o.text, selected: o.value === chosen})));
      return element('label', {}, label + ' ', select);
    };
    this.controls.replaceChildren();
    if (axes.length > 1)
      this.controls.append(choose('along', axes.map((text, a) => ({value: String(a), text})),
        String(this.along), v => { this.along = Number(v); }));
    axes.forEach((axis, a) => {
      if (a === this.along) return;
      const values = distinct(columns.map(c => c[a]));
      this.controls.append(choose(axis, values.map(value => ({value, text: short(value)})),
        this.held[a], v => { this.held[a] = v; }));
    });
    const views = [['time', this.table.figure], ['bound', 'x lower bound'], ['best', 'x best placer']];
    this.controls.append(choose('show', views.map(([value, text]) => ({value, text})), this.view,
      v => { this.view = v; }));
    if (axes.length > 1)
      this.controls.append(choose('heat map of', [{value: '', text: 'none'},
        ...this.table.rows.map((row, r) => ({value: String(r), text: row.name}))],
      this.heated || '', v => { this.heated = v; }));
    this.controls.append(element('label', {}, element('input', {type: 'checkbox', checked: this.logarithmic,
      onchange: e => { this.logarithmic = e.target.checked; this.draw(); }}), ' times logarithmic'));
  }

  draw() {
    this.drawControls();
    for (const chart of this.charts) chart.destroy();
    const {axes, columns} = this.table;
    const shown = columns.map((_, c) => c).filter(c =>
      axes.every((_, a) => a === this.along || columns[c][a] === this.held[a]));
    const axis = this.table.scales[this.along];
    if (axis.kind !== 'words')
      shown.sort((c, d) => axis.at[columns[c][this.along]] - axis.at[columns[d][this.along]]);
    const x = xScale(axis, shown.map(c => columns[c][this.along]), axes[this.along]);
    this.heat.replaceChildren(...(this.heated ? [heatMap(this, Number(this.heated))] : []));
    this.charts = [this.drawValues(this.canvases[0], shown, x)];
    if (this.table.peaks) this.charts.push(this.drawMemory(this.canvases[1], shown, x));
  }

  // One line per placer, in `unit`.
  lines(shown, x, unit, values) {
    return this.table.rows.map((row, r) => ({
      label: row.name,
      borderColor: colours[r % colours.length],
      backgroundColor: colours[r % colours.length],
      borderWidth: 1.8, pointRadius: 3.5, pointHoverRadius: 6,
      mark: marks[r % marks.length],
      pointStyle: shown.map(c => row.status[c] === status.oom ? 'crossRot' : marks[r % marks.length].style),
      pointRotation: marks[r % marks.length].turn || 0,
      pointBorderWidth: 2,
      showLine: !x.words,
      borderDash: r >= colours.length ? [6, 3] : [],
      data: this.points(shown, x, unit, values(row)),
      row
    }));
  }

  reference(label, shown, x, unit, values, colour) {
    return {
      label, borderColor: colour, backgroundColor: colour, borderDash: [6, 4], borderWidth: 1.5,
      pointRadius: 0, pointHoverRadius: 0, data: this.points(shown, x, unit, values)
    };
  }

  points(shown, x, unit, values) {
    return shown.map((c, i) => ({x: x.at[i], y: values[c] === null ? null : values[c] / unit.scale, value: values[c], column: c}));
  }

  // Runs without a value are shown above the chart, one line per placer.
  failures(shown, x) {
    const points = [];
    for (const row of this.table.rows)
      shown.forEach((c, i) => {
        if (row.status[c] > 0) points.push({x: x.at[i], y: row.name, kind: row.status[c], column: c});
      });
    const look = {[status.oom]: ['crossRot', css('--alarm')], [status.infeasible]: ['rectRot', '#d39a1d'],
      [status.error]: ['triangle', '#8a6bc9']};
    return {
      label: 'no value', yAxisID: 'failed', showLine: false, data: points,
      pointRadius: 5, pointHoverRadius: 7, borderWidth: 2, pointBorderWidth: 2,
      pointStyle: points.map(p => look[p.kind][0]),
      pointBorderColor: points.map(p => look[p.kind][1]),
      pointBackgroundColor: points.map(p => p.kind === status.oom ? 'transparent' : look[p.kind][1])
    };
  }

  options(title, x, y, extra, label) {
    y = {beginAtZero: true, title: {display: true, text: title}, grid: {color: css('--grid')}, stack: 'y',
      stackWeight: 5, ...y};
    const legend = chart => chart.data.datasets.map((d, datasetIndex) => ({
      text: d.label, datasetIndex, hidden: !chart.isDatasetVisible(datasetIndex), fontColor: css('--soft'),
      strokeStyle: d.borderColor, fillStyle: d.backgroundColor, lineWidth: d.row ? 1.5 : 2,
      lineDash: d.row ? [] : [4, 3], pointStyle: d.row ? d.mark.style : 'line',
      rotation: d.row ? d.mark.turn || 0 : 0
    })).filter(item => item.text !== 'no value');
    const longest = Math.max(0, ...this.table.rows.map(row => labelText(row.name).length));
    return {
      layout: {padding: ({chart}) => ({right: chart.width < narrow ? 12 : 12 + 6 * longest})},
      scales: {x: x.scale, y, ...extra},
      plugins: {
        legend: {position: 'bottom', labels: {usePointStyle: true, boxHeight: 7, generateLabels: legend}},
        tooltip: {callbacks: {title: items => items.length ? this.place(items[0].raw.column) : '', label}}
      }
    };
  }

  place(column) {
    return this.table.axes.map((axis, a) => `${axis} ${short(this.table.columns[column][a])}`).join(', ');
  }

  // The values of a row in the left chart and the heat map, per column.
  values(row) {
    if (this.view === 'time') return row.value;
    const {bounds, rows} = this.table;
    return row.value.map((ns, c) => {
      const best = Math.min(...rows.map(r => r.value[c] === null ? Infinity : r.value[c]));
      const unit = this.view === 'bound' ? bounds[c] : best;
      return ns === null || !(unit > 0) ? null : ns / unit;
    });
  }

  drawValues(canvas, shown, x) {
    const {bounds, rows, figure} = this.table;
    const inTime = this.view === 'time';
    const unit = inTime ? unitOf(timeUnits, Math.max(1, ...shown.flatMap(c => [bounds[c], ...rows.map(r => r.value[c])])))
      : {scale: 1};
    const datasets = this.lines(shown, x, unit, row => this.values(row));
    if (inTime && shown.some(c => bounds[c] !== null))
      datasets.push(this.reference('lower bound', shown, x, unit, bounds, css('--soft')));
    const failed = this.failures(shown, x);
    const names = distinct(failed.data.map(p => p.y));
    const extra = {};
    if (names.length) {
      datasets.push(failed);
      extra.failed = {axis: 'y', type: 'category', labels: [...names, ''], offset: true, stack: 'y',
        stackWeight: Math.min(4, 0.4 * names.length + 0.4), grid: {color: css('--grid')},
        ticks: {autoSkip: false, font: {size: 10}}};
    }
    const label = ({raw, dataset}) => {
      if (raw.kind) return `${raw.y}: ${statusText[raw.kind]}`;
      if (!inTime) return `${dataset.label}: ${raw.value.toFixed(3)}`;
      const over = dataset.row && bounds[raw.column] > 0 ? `, ${(raw.value / bounds[raw.column]).toFixed(2)} x the bound` : '';
      return `${dataset.label}: ${timeText(raw.value)}${over}`;
    };
    return makeChart(canvas, {data: {datasets}, options: this.options(
      inTime ? `${figure} [${unit.name}]` : `${figure} / ${this.view === 'bound' ? 'lower bound' : 'best placer'}`, x,
      {type: this.logarithmic ? 'logarithmic' : 'linear', beginAtZero: inTime}, extra, label)});
  }

  drawMemory(canvas, shown, x) {
    const {memory, rows} = this.table;
    const used = Math.max(1, ...shown.flatMap(c => rows.map(r => r.peak[c])));
    const unit = unitOf(sizeUnits, used);
    const limit = Math.max(...shown.map(c => memory[c]));
    const datasets = this.lines(shown, x, unit, row => row.peak);
    // Shows the limit unless little of it is used.
    if (used > limit / 4)
      datasets.push(this.reference('memory of a device', shown, x, unit, memory, css('--alarm')));
    const label = ({raw, dataset}) => {
      const ran_out = dataset.row && dataset.row.status[raw.column] === status.oom;
      const parts = (dataset.row && dataset.row.parts[raw.column]) || [];
      return [`${dataset.label}: ${sizeText(raw.value)}${ran_out ? ' when it ran out' : ''}`,
        ...parts.flatMap((bytes, i) => bytes ? [`  ${partNames[i]} ${sizeText(bytes)}`] : [])];
    };
    return makeChart(canvas, {data: {datasets}, options: 
      this.options(`peak memory [${unit.name}], of ${sizeText(limit)}`, x, {}, {}, label)});
  }
}

Chart.defaults.color = css('--soft');
Chart.defaults.font.family = 'system-ui, sans-serif';
const tableCharts = [];
page.tables.forEach((table, t) => {
  if (table.axes.length) tableCharts.push(new TableCharts(table, document.getElementById(`charts${t}`)));
});
document.body.dataset.charts = String(tableCharts.reduce((n, t) => n + t.charts.length, 0));
