'use strict';
// Rooflines: achieved flops per second of steps, layers and ops, over flops per byte.

const bounds = [{name: 'bound by compute', colour: '#0072b2'}, {name: 'bound by memory', colour: '#e69f00'},
  {name: 'bound by launches', colour: '#777777'}, {name: 'kind of device unknown', colour: '#a89f00'}];
const tera = value => Number((value / 1e12).toPrecision(3)) + ' TFLOP/s';
const near = (a, b) => Math.abs(a / b - 1) < 0.005;
const giga = value => Number((value / 1e9).toPrecision(3)) + ' GB/s';

// Points [{name, flops, traffic, ns, devices}] of one colour and mark.
function rooflinePoints(label, colour, i, points) {
  const mark = marks[i % marks.length];
  return {
    label, mark, borderColor: colour, backgroundColor: colour + 'aa', showLine: false, pointRadius: 4, pointHoverRadius: 7,
    pointStyle: mark.style, pointRotation: mark.turn || 0,
    data: points.map(p => ({x: p.flops / p.traffic, y: p.flops / p.ns * 1e9 / (p.devices || 1), ...p}))
  };
}

// min(peak, bandwidth x intensity) from `low` to `high`.
function roofDataset({label, peak, bandwidth}, low, high) {
  const ridge = peak / bandwidth;
  const at = [low, ...(ridge > low && ridge < high ? [ridge] : []), high];
  return {label, roof: true, borderColor: css('--soft'), backgroundColor: css('--soft'), borderWidth: 1.5,
    borderDash: [6, 4], pointRadius: 0, pointHoverRadius: 0, data: at.map(x => ({x, y: Math.min(peak, bandwidth * x)}))};
}

class Roofline {
  constructor(container) {
    const option = (value, textContent) => element('option', {value, textContent});
    const steps = Object.keys(page.steps).filter(id => page.steps[id].picture.roofline);
    this.canvas = element('canvas');
    this.of = element('select', {onchange: () => this.draw()}, option('', 'all runs'),
      ...steps.map(id => option(id, page.steps[id].title)));
    this.level = element('select', {onchange: () => this.draw()}, option('ops', 'ops'), option('layers', 'layers'));
    this.levelLabel = element('label', {}, 'points are ', this.level);
    container.append(element('div', {className: 'controls'}, element('label', {}, 'roofline of ', this.of), this.levelLabel),
      element('div', {className: 'chart tall'}, this.canvas),
      element('p', {className: 'hint', textContent: 'A point reaches so many flops per second of its device, at so many flops ' +
        'per byte of memory traffic. The dashed roof is what the data sheet allows: bandwidth x intensity, then the peak. A point ' +
        'above it is of a kind of device with an efficiency above 1: its kernels do less than is counted (Winograd). Ops and ' +
        'layers: the 100 that take longest. A layer is a module, all passes together.'}));
    this.draw();
  }

  // All runs: a group per graph, and the rooflines of their devices.
  runs() {
    const roofs = [], groups = new Map();
    for (const run of page.utilisation) {
      if (!groups.has(run.graph)) groups.set(run.graph, []);
      groups.get(run.graph).push(run);
      if (!run.peak || !run.bandwidth) continue;
      if (!roofs.some(roof => near(roof.peak, run.peak) && near(roof.bandwidth, run.bandwidth)))
        roofs.push({label: `${tera(run.peak)}, ${giga(run.bandwidth)}`, peak: run.peak, bandwidth: run.bandwidth});
    }
    return {roofs: roofs.slice(0, 8),
      groups: [...groups].map(([name, points], i) => rooflinePoints(name, colours[i % colours.length], i, points))};
  }

  // One step: its ops by their bound, or its layers; and the whole step.
  one(id) {
    const {roofline} = page.steps[id].picture;
    const points = roofline[this.level.value].map(([name, flops, traffic, ns, bound]) => ({name, flops, traffic, ns, bound}));
    const groups = this.level.value === 'layers' ? [rooflinePoints('layers', colours[0], 0, points)]
      : bounds.map((b, i) => rooflinePoints(b.name, b.colour, i, points.filter(p => p.bound === (i < 3 ? i : -1))))
        .filter(d => d.data.length);
    const whole = page.utilisation.find(run => String(run.id) === id);
    if (whole) groups.push(rooflinePoints('the whole step', '#c2352b', 5, [whole]));
    const roofs = roofline.roofs.flatMap(({device, bandwidth, peaks}) => Object.entries(peaks).map(([format, peak]) =>
      ({label: `${device} ${format}: ${tera(peak)}, ${giga(bandwidth)}`, peak, bandwidth})));
    return {roofs, groups};
  }

  draw() {
    const id = this.of.value;
    this.levelLabel.style.visibility = id ? '' : 'hidden';
    const {roofs, groups} = id ? this.one(id) : this.runs();
    const xs = groups.flatMap(d => d.data.map(p => p.x)).concat(roofs.map(r => r.peak / r.bandwidth));
    const low = Math.min(...xs) / 2, high = Math.max(...xs) * 2;
    const datasets = [...groups, ...roofs.map(roof => roofDataset(roof, low, high))];
    const ys = datasets.flatMap(d => d.data.map(p => p.y));
    // Ticks at 1, 2, 5, 10, ... have a label, in units of `scale`.
    const digit = value => value / 10 ** Math.floor(Math.log10(value) + 1e-9);
    const axis = (text, least, most, scale) => ({type: 'logarithmic', min: least, max: most, grid: {color: css('--grid')},
      title: {display: true, text}, ticks: {callback: value => [1, 2, 5].some(d => near(d, digit(value)))
        ? String(Number((value / scale).toPrecision(1))) : ''}});
    const legend = chart => chart.data.datasets.map((d, datasetIndex) => ({
      text: d.label, datasetIndex, hidden: !chart.isDatasetVisible(datasetIndex), fontColor: css('--soft'),
      strokeStyle: d.borderColor, fillStyle: d.backgroundColor, lineWidth: 1.5, lineDash: d.roof ? [4, 3] : [],
      pointStyle: d.roof ? 'line' : d.mark.style, rotation: d.roof ? 0 : d.mark.turn || 0}));
    if (this.chart) this.chart.destroy();
    this.chart = makeChart(this.canvas, {plugins: [], data: {datasets}, options: {
      scales: {x: axis('flops per byte', low, high, 1),
        y: axis('TFLOP/s of a device', Math.min(...ys) / 2, Math.max(...ys) * 2, 1e12)},
      plugins: {
        legend: {position: 'bottom', labels: {usePointStyle: true, boxHeight: 7, generateLabels: legend}},
        tooltip: {filter: item => !item.dataset.roof, callbacks: {title: () => '', label: ({raw}) =>
          `${raw.name}: ${tera(raw.y)}, ${raw.x.toPrecision(3)} flop/byte, ${timeText(raw.ns)}`}}}}});
    document.body.dataset.roofline = String(groups.reduce((n, d) => n + d.data.length, 0));
  }
}

drawTab.utilisation = () => new Roofline(document.getElementById('roofline'));
if (document.querySelector(`#tabs button[data-tab="${location.hash.slice(1)}"]`)) showTab(location.hash.slice(1));
