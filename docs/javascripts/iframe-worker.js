// Runs the search in a frame if the site was opened from disk, where browsers allow no workers.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html><title>Search</title>";
      this.ready = new Promise((ready) => {
        frame.onload = () => {
          const scope = frame.contentWindow;
          const load = (source) =>
            new Promise((done, failed) => {
              const script = scope.document.createElement("script");
              Object.assign(script, { src: source, onload: done, onerror: failed });
              scope.document.head.append(script);
            });
          scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          scope.importScripts = async (...sources) => {
            for (const source of sources) await load(source);
          };
          load(address).then(() => ready(scope));
        };
      });
      document.documentElement.append(frame);
    }

    async postMessage(data) {
      const scope = await this.ready;
      scope.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
