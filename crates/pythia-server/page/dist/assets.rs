// Written by vite.config.ts.
vec![
    Asset::new("assets/icon-Btt2Sh8j.svg", "image/svg+xml", include_bytes!("assets/icon-Btt2Sh8j.svg")),
    Asset::new("assets/index-Boue1q0H.css", "text/css; charset=utf-8", include_bytes!("assets/index-Boue1q0H.css")),
    Asset::new("assets/index-PSW2yeDV.js", "text/javascript; charset=utf-8", include_bytes!("assets/index-PSW2yeDV.js")),
    Asset::new("assets/land-DwBjx6cZ.js", "text/javascript; charset=utf-8", include_bytes!("assets/land-DwBjx6cZ.js")),
    Asset::new("index.html", "text/html; charset=utf-8", include_bytes!("index.html")),
]
