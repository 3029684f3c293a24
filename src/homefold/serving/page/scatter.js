// A scatter plot of many points: one draw call for all of them, and a second canvas for what is drawn over them.

const VERTEX = `
attribute vec2 place; attribute vec4 colour; attribute float size;
uniform vec2 scale; uniform vec2 middle; uniform float pixels;
varying vec4 shade;
void main() {
  gl_Position = colour.a > 0.0 ? vec4((place - middle) * scale, 0.0, 1.0) : vec4(2.0, 2.0, 2.0, 1.0);
  gl_PointSize = size * pixels;
  shade = colour;
}`;
const FRAGMENT = `
precision mediump float;
varying vec4 shade;
void main() {
  float far = length(gl_PointCoord - 0.5) * 2.0;
  float alpha = shade.a * (1.0 - smoothstep(0.8, 1.0, far));
  gl_FragColor = vec4(shade.rgb * alpha, alpha);
}`;
const CELLS = 256;
const PICK_PX = 14;
const CLICK_PX = 5;
const LARGEST_ZOOM = 400;
const LARGEST_FRAME = 4;
const SLOW_FRAME_MS = 35;
const FEWEST_MOVING = 12000;
const REST_MS = 150;

function compiled(gl, kind, source) {
  const shader = gl.createShader(kind);
  gl.shaderSource(shader, source);
  gl.compileShader(shader);
  return shader;
}

/** Rows in an order without a pattern, the same every time, so that any first part of them is a fair sample. */
function shuffled(count) {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  let state = 1;
  for (let i = count - 1; i > 0; i -= 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = Math.floor((state / 2 ** 32) * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  return order;
}

/** Points in boxes, so that the nearest is found without looking at all of them. */
class Boxes {
  constructor(x, y) {
    this.starts = new Uint32Array(CELLS * CELLS + 1);
    this.rows = new Uint32Array(x.length);
    const box = Uint16Array.from(x, (_, i) => Boxes.at(x[i]) + CELLS * Boxes.at(y[i]));
    for (const b of box) this.starts[b + 1] += 1;
    for (let b = 0; b < CELLS * CELLS; b += 1) this.starts[b + 1] += this.starts[b];
    const next = this.starts.slice();
    box.forEach((b, i) => {
      this.rows[next[b]++] = i;
    });
  }

  static at(value) {
    return Math.max(0, Math.min(CELLS - 1, Math.floor(((value + 1) / 2) * CELLS)));
  }

  *near(x, y, reach) {
    for (let j = Boxes.at(y - reach); j <= Boxes.at(y + reach); j += 1) {
      for (let i = Boxes.at(x - reach); i <= Boxes.at(x + reach); i += 1) {
        const box = i + CELLS * j;
        for (let k = this.starts[box]; k < this.starts[box + 1]; k += 1) yield this.rows[k];
      }
    }
  }
}

/**
 * Draws points into a host element. It calls `onpick(row)` for a point that was chosen, `onlasso(rows)` for those that
 * were encircled, `onhover(row or -1)` under the pointer.
 */
export class Scatter {
  constructor(host, label, { still = false } = {}) {
    this.host = host;
    this.onpick = this.onlasso = this.onhover = () => {};
    this.lassoing = false;
    this.count = 0;
    this.current = -1;
    this.arrow = null;
    this.view = { x: 0, y: 0, zoom: 1 };
    this.base = document.createElement("canvas");
    this.over = document.createElement("canvas");
    this.base.setAttribute("aria-hidden", "true");
    this.over.setAttribute("role", still ? "img" : "application");
    this.over.setAttribute("aria-label", label);
    if (!still) this.over.tabIndex = 0;
    host.replaceChildren(this.base, this.over);
    host.classList.add("scatter");
    this.gl = this.base.getContext("webgl", { premultipliedAlpha: true, antialias: false });
    if (this.gl) this.prepare();
    else this.flat = this.base.getContext("2d");
    this.base.addEventListener("webglcontextlost", (event) => event.preventDefault());
    this.base.addEventListener("webglcontextrestored", () => {
      this.prepare();
      this.upload();
    });
    new ResizeObserver(() => this.resize()).observe(host);
    if (!still) this.listen();
  }

  prepare() {
    const { gl } = this;
    const program = gl.createProgram();
    gl.attachShader(program, compiled(gl, gl.VERTEX_SHADER, VERTEX));
    gl.attachShader(program, compiled(gl, gl.FRAGMENT_SHADER, FRAGMENT));
    gl.linkProgram(program);
    gl.useProgram(program);
    this.buffers = {};
    for (const [name, size, kind, normalise] of [
      ["place", 2, gl.FLOAT, false],
      ["colour", 4, gl.UNSIGNED_BYTE, true],
      ["size", 1, gl.FLOAT, false],
    ]) {
      const place = gl.getAttribLocation(program, name);
      this.buffers[name] = gl.createBuffer();
      gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, size, kind, normalise, 0, 0);
    }
    this.uniforms = Object.fromEntries(
      ["scale", "middle", "pixels"].map((name) => [name, gl.getUniformLocation(program, name)]),
    );
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  /** Takes points at coordinates x and y, two Float32Arrays; both axes keep one scale. */
  place(x, y) {
    this.count = x.length;
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < x.length; i += 1) {
      left = Math.min(left, x[i]);
      right = Math.max(right, x[i]);
      low = Math.min(low, y[i]);
      high = Math.max(high, y[i]);
    }
    // The longer side fills the square from -1 to 1, with a little room around it.
    const half = Math.max(right - left, high - low, 1e-9) * 0.52;
    this.origin = [(left + right) / 2, (low + high) / 2, half];
    this.x = x.map((value) => (value - this.origin[0]) / half);
    this.y = y.map((value) => (value - this.origin[1]) / half);
    this.boxes = new Boxes(this.x, this.y);
    this.order = shuffled(this.count);
    this.budget = this.count;
    this.colours = new Uint8Array(4 * this.count).fill(128);
    this.sizes = new Float32Array(this.count);
    this.radius = Math.max(2.5, Math.min(7, 300 / Math.sqrt(this.count + 1)));
    this.marked = null;
    this.current = -1;
    this.upload();
  }

  /** Colours by row: `(row) => [r, g, b, a]`; an alpha of 0 hides a point. */
  paint(colourOf) {
    for (let i = 0; i < this.count; i += 1) this.colours.set(colourOf(i), 4 * i);
    this.upload();
  }

  /** Marks rows among all; null marks none. */
  mark(rows) {
    this.marked = rows && new Set(rows);
    this.upload();
  }

  isShown(row) {
    return this.colours[4 * row + 3] > 0;
  }

  upload() {
    if (!this.count) return;
    const [dim, normal, large] = [this.radius * 0.7, this.radius, this.radius * 1.25];
    for (let i = 0; i < this.count; i += 1) this.sizes[i] = !this.marked ? normal : this.marked.has(i) ? large : dim;
    if (this.gl) {
      const { gl, buffers, order } = this;
      const points = new Float32Array(2 * this.count);
      const colours = new Uint8Array(4 * this.count);
      const sizes = new Float32Array(this.count);
      order.forEach((row, i) => {
        points[2 * i] = this.x[row];
        points[2 * i + 1] = this.y[row];
        for (let k = 0; k < 4; k += 1) colours[4 * i + k] = this.colours[4 * row + k];
        if (this.marked && !this.marked.has(row)) colours[4 * i + 3] *= 0.25;
        sizes[i] = this.sizes[row];
      });
      for (const [name, values] of [["place", points], ["colour", colours], ["size", sizes]]) {
        gl.bindBuffer(gl.ARRAY_BUFFER, buffers[name]);
        gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
      }
    }
    this.draw();
  }

  resize() {
    const ratio = devicePixelRatio || 1;
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.round(this.host.clientWidth * ratio);
      canvas.height = Math.round(this.host.clientHeight * ratio);
    }
    this.draw();
  }

  /** Draws in the next frame, once however often it is called. */
  draw() {
    this.frame ??= requestAnimationFrame((now) => {
      this.frame = null;
      if (this.resting) this.keepPace(now);
      this.drawNow();
    });
  }

  /** Draws while the view moves: a fair sample where all points take too long, and all of them once it rests. */
  move() {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.resting = this.before = null;
      this.draw();
    }, REST_MS);
    this.draw();
  }

  keepPace(now) {
    if (this.before && now - this.before > SLOW_FRAME_MS) this.budget = Math.max(FEWEST_MOVING, this.budget / 2);
    this.before = now;
  }

  get drawn() {
    return this.resting ? Math.min(this.count, Math.floor(this.budget)) : this.count;
  }

  get half() {
    return Math.min(this.host.clientWidth, this.host.clientHeight) / 2;
  }

  drawNow() {
    const { width, height } = this.base;
    if (!this.count || !width || !height) return;
    const ratio = devicePixelRatio || 1;
    const scale = this.half * this.view.zoom * ratio;
    const grown = Math.min(2, this.view.zoom ** 0.25);
    if (this.gl) {
      const { gl, uniforms } = this;
      gl.viewport(0, 0, width, height);
      gl.clear(gl.COLOR_BUFFER_BIT);
      gl.uniform2f(uniforms.scale, (2 * scale) / width, (2 * scale) / height);
      gl.uniform2f(uniforms.middle, this.view.x, this.view.y);
      gl.uniform1f(uniforms.pixels, ratio * grown);
      gl.drawArrays(gl.POINTS, 0, this.drawn);
    } else {
      this.flat.clearRect(0, 0, width, height);
      for (const i of this.order.subarray(0, this.drawn)) {
        if (!this.isShown(i)) continue;
        const [r, g, b, a] = this.colours.subarray(4 * i, 4 * i + 4);
        const side = this.sizes[i] * ratio * grown;
        this.flat.fillStyle = `rgba(${r},${g},${b},${this.marked && !this.marked.has(i) ? 0.2 : a / 255})`;
        const [x, y] = this.onScreen(this.x[i], this.y[i]);
        this.flat.fillRect(x * ratio - side / 2, y * ratio - side / 2, side, side);
      }
    }
    this.drawOver(ratio);
  }

  drawOver(ratio) {
    const pen = this.over.getContext("2d");
    const ink = getComputedStyle(this.host).color;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.host.clientWidth, this.host.clientHeight);
    pen.strokeStyle = pen.fillStyle = ink;
    pen.lineWidth = 2;
    if (this.path?.length > 1) {
      pen.setLineDash([5, 4]);
      pen.beginPath();
      for (const [x, y] of this.path) pen.lineTo(x, y);
      pen.stroke();
      pen.setLineDash([]);
    }
    if (this.current >= 0) {
      pen.beginPath();
      pen.arc(...this.onScreen(this.x[this.current], this.y[this.current]), this.radius + 3, 0, 2 * Math.PI);
      pen.stroke();
    }
    if (this.arrow) this.drawArrow(pen);
  }

  drawArrow(pen) {
    const [from, to] = this.arrow.map((place) => this.onScreen(...this.scaled(place)));
    const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
    pen.lineWidth = 2.5;
    pen.beginPath();
    pen.arc(...from, 5, 0, 2 * Math.PI);
    pen.moveTo(...from);
    pen.lineTo(...to);
    pen.stroke();
    pen.beginPath();
    pen.moveTo(...to);
    for (const turn of [2.6, -2.6]) pen.lineTo(to[0] + 13 * Math.cos(angle + turn), to[1] + 13 * Math.sin(angle + turn));
    pen.fill();
  }

  /** Draws an arrow between two places in the coordinates of `place`; null takes it away. */
  point(arrow) {
    this.arrow = arrow;
    this.draw();
  }

  /** Looks at the arrow, near enough to see where it leads. */
  frameArrow() {
    const [[fromX, fromY], [toX, toY]] = this.arrow.map((place) => this.scaled(place));
    const length = Math.hypot(toX - fromX, toY - fromY);
    this.view = { x: (fromX + toX) / 2, y: (fromY + toY) / 2, zoom: Math.max(1, Math.min(LARGEST_FRAME, 0.6 / (length || 1e-9))) };
    this.draw();
  }

  scaled([x, y]) {
    return [(x - this.origin[0]) / this.origin[2], (y - this.origin[1]) / this.origin[2]];
  }

  onScreen(x, y) {
    const scale = this.half * this.view.zoom;
    return [
      this.host.clientWidth / 2 + (x - this.view.x) * scale,
      this.host.clientHeight / 2 - (y - this.view.y) * scale,
    ];
  }

  fromScreen(x, y) {
    const scale = this.half * this.view.zoom;
    return [
      this.view.x + (x - this.host.clientWidth / 2) / scale,
      this.view.y - (y - this.host.clientHeight / 2) / scale,
    ];
  }

  /** The shown point nearest to a place on the screen; -1 where none is near. */
  at(screenX, screenY) {
    if (!this.count) return -1;
    const [x, y] = this.fromScreen(screenX, screenY);
    const reach = PICK_PX / (this.half * this.view.zoom);
    let [best, least] = [-1, reach * reach];
    for (const row of this.boxes.near(x, y, reach)) {
      const distance = (this.x[row] - x) ** 2 + (this.y[row] - y) ** 2;
      if (distance <= least && this.isShown(row)) [best, least] = [row, distance];
    }
    return best;
  }

  /** The shown points within a polygon on the screen. */
  within(path) {
    const corners = path.map(([x, y]) => this.fromScreen(x, y));
    const rows = [];
    for (let i = 0; i < this.count; i += 1) {
      if (!this.isShown(i)) continue;
      let inside = false;
      for (let a = 0, b = corners.length - 1; a < corners.length; b = a++) {
        const [[ax, ay], [bx, by]] = [corners[a], corners[b]];
        const crosses = ay > this.y[i] !== by > this.y[i];
        if (crosses && this.x[i] < ((bx - ax) * (this.y[i] - ay)) / (by - ay) + ax) inside = !inside;
      }
      if (inside) rows.push(i);
    }
    return rows;
  }

  /** Makes a row the current one, and moves there where it is out of sight. */
  choose(row) {
    this.current = row;
    if (row >= 0) {
      const [x, y] = this.onScreen(this.x[row], this.y[row]);
      if (x < 0 || y < 0 || x > this.host.clientWidth || y > this.host.clientHeight) {
        [this.view.x, this.view.y] = [this.x[row], this.y[row]];
      }
    }
    this.draw();
  }

  zoom(factor, x = this.host.clientWidth / 2, y = this.host.clientHeight / 2) {
    const [beforeX, beforeY] = this.fromScreen(x, y);
    this.view.zoom = Math.max(0.5, Math.min(LARGEST_ZOOM, this.view.zoom * factor));
    const [afterX, afterY] = this.fromScreen(x, y);
    this.view.x += beforeX - afterX;
    this.view.y += beforeY - afterY;
    this.move();
  }

  fit() {
    this.view = { x: 0, y: 0, zoom: 1 };
    this.draw();
  }

  /** The shown point that is nearest in a direction from the current one. */
  next(dx, dy) {
    const [x, y] = this.current < 0 ? [this.view.x, this.view.y] : [this.x[this.current], this.y[this.current]];
    let [best, least] = [this.current, Infinity];
    for (let i = 0; i < this.count; i += 1) {
      if (i === this.current || !this.isShown(i)) continue;
      const [a, b] = [this.x[i] - x, this.y[i] - y];
      const along = a * dx + b * dy;
      const cost = along + 3 * Math.abs(a * dy - b * dx);
      if (along > 0 && cost < least) [best, least] = [i, cost];
    }
    return best;
  }

  listen() {
    const { over } = this;
    const pointers = new Map();
    let began = null;
    let apart = 0;
    const place = (event) => [event.offsetX, event.offsetY];
    const spread = () => {
      const [a, b] = [...pointers.values()];
      return Math.hypot(a[0] - b[0], a[1] - b[1]);
    };
    over.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      over.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, place(event));
      began = place(event);
      this.path = (this.lassoing || event.shiftKey) && pointers.size === 1 ? [began] : null;
      if (pointers.size === 2) apart = spread();
    });
    over.addEventListener("pointermove", (event) => {
      const now = place(event);
      const last = pointers.get(event.pointerId);
      if (!last) {
        this.onhover(this.at(...now));
        return;
      }
      pointers.set(event.pointerId, now);
      if (pointers.size === 2) {
        const before = apart;
        apart = spread();
        this.zoom(apart / before, ...now);
        began = null;
      } else if (this.path) {
        this.path.push(now);
        this.draw();
      } else {
        const scale = this.half * this.view.zoom;
        this.view.x -= (now[0] - last[0]) / scale;
        this.view.y += (now[1] - last[1]) / scale;
        this.move();
      }
    });
    const end = (event) => {
      if (!pointers.delete(event.pointerId)) return;
      const now = place(event);
      const path = this.path;
      this.path = null;
      if (began && Math.hypot(now[0] - began[0], now[1] - began[1]) < CLICK_PX && !(path?.length > 8)) {
        const row = this.at(...now);
        if (row >= 0) this.onpick(row);
      } else if (path?.length > 2) {
        this.onlasso(this.within(path));
      }
      this.draw();
    };
    over.addEventListener("pointerup", end);
    over.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
    over.addEventListener("pointerleave", () => this.onhover(-1));
    over.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    }, { passive: false });
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    over.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.count) return;
      if (moves[event.key]) this.onpick(this.next(...moves[event.key]));
      else if (event.key === "+" || event.key === "=") this.zoom(1.4);
      else if (event.key === "-") this.zoom(1 / 1.4);
      else if (event.key === "0") this.fit();
      else return;
      event.preventDefault();
    });
  }
}
