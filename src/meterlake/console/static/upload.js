// Sends the files of a form by itself, with their progress; without it the form does the same.
"use strict";

function put(file, announced, progress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", announced.url);
    for (const [name, value] of Object.entries(announced.headers)) {
      // Browsers say the length themselves.
      if (name.toLowerCase() !== "content-length") request.setRequestHeader(name, value);
    }
    request.upload.onprogress = (event) => { progress.value = event.loaded / (event.total || 1); };
    request.onload = () => (request.status < 300 ? resolve() : reject(new Error(String(request.status))));
    request.onerror = () => reject(new Error("no connection"));
    request.send(file);
  });
}

async function announce(form, file) {
  const body = new URLSearchParams({ csrf: form.elements.csrf.value, name: file.name, size: String(file.size) });
  const answer = await fetch(form.dataset.announce, { method: "POST", body });
  if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
  const announced = await answer.json();
  if (new URL(announced.url, location.href).origin !== location.origin) throw new Error("elsewhere");
  return announced;
}

async function send(form) {
  const state = form.querySelector("[data-progress]");
  const files = [...form.elements.file.files];
  let page = form.action;
  for (const file of files) {
    const announced = await announce(form, file);
    const line = document.createElement("p");
    const progress = document.createElement("progress");
    progress.max = 1;
    line.append(`${file.name} `, progress);
    state.append(line);
    await put(file, announced, progress);
    page = announced.page;
  }
  location.assign(files.length === 1 ? page : form.action);
}

for (const form of document.querySelectorAll("form[data-announce]")) {
  form.addEventListener("submit", (event) => {
    if (!form.elements.file.files.length) return;
    event.preventDefault();
    // What the script cannot do, such as a file for a store elsewhere, the form does.
    send(form).catch(() => form.submit());
  });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    form.addEventListener(kind, (event) => {
      event.preventDefault();
      form.classList.toggle("over", kind === "dragover");
      if (kind !== "drop" || !event.dataTransfer.files.length) return;
      form.elements.file.files = event.dataTransfer.files;
      form.requestSubmit();
    });
  }
}
