// Panning and zooming of a drawing by pointer, wheel, pinch and keys.

import { useEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";

export interface Box { x: number; y: number; width: number; height: number }

/** Returns the visible part of a drawing as its viewBox. It shows all of `bounds` until the user moves it. */
export function usePanZoom(svg: RefObject<SVGSVGElement | null>, bounds: Box, narrowest: number, widest: number) {
  const [moved, setMoved] = useState<Box | null>(null);
  const pointers = useRef(new Map<number, { x: number; y: number }>());
  const box = fitted(moved ?? bounds, svg.current);

  const zoom = (factor: number, at?: { x: number; y: number }) => setMoved((before) => {
    const now = fitted(before ?? bounds, svg.current);
    const width = Math.min(widest, Math.max(narrowest, now.width * factor));
    const real = width / now.width;
    const centre = at ?? { x: now.x + now.width / 2, y: now.y + now.height / 2 };
    return {
      x: centre.x - (centre.x - now.x) * real, y: centre.y - (centre.y - now.y) * real,
      width, height: now.height * real,
    };
  });
  const move = (dx: number, dy: number) => setMoved((before) => {
    const now = fitted(before ?? bounds, svg.current);
    return { ...now, x: now.x + dx, y: now.y + dy };
  });
  const place = (event: { clientX: number; clientY: number }) => {
    const area = svg.current?.getBoundingClientRect();
    if (!area) return { x: 0, y: 0 };
    return {
      x: box.x + ((event.clientX - area.left) / area.width) * box.width,
      y: box.y + ((event.clientY - area.top) / area.height) * box.height,
    };
  };

  // Browsers may make Preact's wheel listeners passive. This listener must not be passive, because it stops the
  // page from scrolling.
  const wheel = useRef<(event: WheelEvent) => void>(() => {});
  wheel.current = (event) => {
    if (!event.ctrlKey && document.activeElement !== svg.current && !svg.current?.contains(document.activeElement)) return;
    event.preventDefault();
    zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 300), place(event));
  };
  useEffect(() => {
    const element = svg.current;
    const listen = (event: WheelEvent) => wheel.current(event);
    element?.addEventListener("wheel", listen, { passive: false });
    return () => element?.removeEventListener("wheel", listen);
  }, []);

  const down = (event: PointerEvent) => {
    pointers.current.set(event.pointerId, { x: event.clientX, y: event.clientY });
  };
  const drag = (event: PointerEvent) => {
    const before = pointers.current.get(event.pointerId);
    const area = svg.current?.getBoundingClientRect();
    if (!before || !area) return;
    const other = [...pointers.current].find(([id]) => id !== event.pointerId)?.[1];
    const scale = box.width / area.width;
    const far = Math.hypot(event.clientX - before.x, event.clientY - before.y) > 0;
    if (other) {
      const was = Math.hypot(before.x - other.x, before.y - other.y);
      const is = Math.hypot(event.clientX - other.x, event.clientY - other.y);
      if (is > 0) zoom(was / is, place({ clientX: (event.clientX + other.x) / 2, clientY: (event.clientY + other.y) / 2 }));
    } else if (far) {
      move((before.x - event.clientX) * scale, (before.y - event.clientY) * scale);
    }
    pointers.current.set(event.pointerId, { x: event.clientX, y: event.clientY });
  };
  const up = (event: PointerEvent) => {
    pointers.current.delete(event.pointerId);
  };
  const key = (event: KeyboardEvent) => {
    if (event.key === "+" || event.key === "=") zoom(0.8);
    else if (event.key === "-") zoom(1.25);
    else if (event.key === "0") setMoved(null);
    else if (event.target === svg.current && event.key.startsWith("Arrow")) {
      const [dx, dy] = ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] } as Record<string, [number, number]>)[event.key] ?? [0, 0];
      move((dx * box.width) / 10, (dy * box.height) / 10);
    } else return;
    event.preventDefault();
  };
  const handlers = {
    onPointerDown: down, onPointerMove: drag, onPointerUp: up, onPointerCancel: up, onPointerLeave: up, onKeyDown: key,
  };
  return { box, zoom, place, handlers, fit: () => setMoved(null) };
}

export function ZoomButtons({ zoom, fit }: { zoom: (factor: number) => void; fit: () => void }) {
  return (
    <div class="zoom" role="group" aria-label="Zoom">
      <button type="button" aria-label="Zoom in" onClick={() => zoom(0.7)}>+</button>
      <button type="button" aria-label="Zoom out" onClick={() => zoom(1.4)}>−</button>
      <button type="button" aria-label="Show all" title="Show all" onClick={fit}>⤢</button>
    </div>
  );
}

/** Returns the box, enlarged to the aspect ratio of its element. */
function fitted(box: Box, element: Element | null): Box {
  const shape = element && element.clientHeight > 0 ? element.clientWidth / element.clientHeight : 16 / 10;
  const width = Math.max(box.width, box.height * shape);
  const height = width / shape;
  return { x: box.x - (width - box.width) / 2, y: box.y - (height - box.height) / 2, width, height };
}
