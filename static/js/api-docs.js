"use strict";

// Draws the API's operations from their schema. Requests that are tried out carry a token, never the session.
(() => {
  const place = document.getElementById("docs");
  SwaggerUIBundle({
    url: place.dataset.schema,
    domNode: place,
    deepLinking: true,
    validatorUrl: null,
    requestInterceptor: (request) => ({ ...request, credentials: "omit" }),
  });
})();
