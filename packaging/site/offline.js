// A Worker for pages that are opened from a disk, where browsers start none: its script runs in a hidden frame, and
// messages go from window to window.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.waiting = [];
      const script = new URL(url, location.href).href;
      this.frame.srcdoc =
        "<script>window.importScripts = (...urls) => Promise.all(urls.map((u) => new Promise((done, failed) => {" +
        "const s = document.createElement('script'); s.src = u; s.onload = done; s.onerror = failed;" +
        "document.head.append(s); })));" +
        "const post = parent.postMessage.bind(parent);" +
        "window.postMessage = (data) => post({fromWorker: data}, '*');" +
        "</" + "script><script src=\"" + script + "\"></" + "script>";
      this.frame.onload = () => {
        this.ready = true;
        for (const data of this.waiting) this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data}));
      };
      window.addEventListener("message", (event) => {
        if (event.source !== this.frame.contentWindow || !event.data || !("fromWorker" in event.data)) return;
        const message = new MessageEvent("message", {data: event.data.fromWorker});
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      });
      document.body.append(this.frame);
    }
    postMessage(data) {
      if (this.ready) this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data}));
      else this.waiting.push(data);
    }
    terminate() {
      this.frame.remove();
    }
  };
}
